"""The functions that a user's DAG file calls, and what Airflow stores of their DAGs."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowTaskTimeout
from airflow.serialization.serialized_objects import DagSerialization

from sitemap_etl import airflow
from sitemap_etl.airflow import raise_site_errors, site_dag, site_dags
from sitemap_etl.airflow.loading import LoadTime
from sitemap_etl.errors import ConfigError
from tests.support.airflow import PROJECT

SITE: dict[str, Any] = {
    "site": "https://shop.example",
    "work": "../work",
    "publish": {"to": "../public", "at": "https://shop.example/"},
    "schedule": {"cron": "0 2 * * *", "timezone": "Europe/Berlin"},
    "sections": {
        "pages": {"from": {"csv": "../pages.csv"}},
        "cats": {"from": {"database": "catalog", "query": "SELECT loc FROM cats WHERE t > :since", "key": "loc"}},
        "walks": {"from": {"csv": "../walks.csv"}, "alternates": {"group": "walk", "hreflang": "lang"}},
    },
}
"""A site with every kind of task."""


def write(folder: Path, stem: str, **keys: Any) -> Path:
    folder.mkdir(exist_ok=True)
    file = folder / f"{stem}.yaml"
    file.write_text(yaml.safe_dump({**SITE, **keys}, sort_keys=False))
    return file


@pytest.fixture
def sites(tmp_path: Path) -> Path:
    return tmp_path / "sites"


@pytest.fixture
def asked_for_shop(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker with a task of the DAG `shop`."""
    monkeypatch.setenv("_AIRFLOW_PARSING_CONTEXT_DAG_ID", "shop")


OPENED: list[str] = []
"""The files that were opened since it was cleared."""
sys.addaudithook(lambda event, args: OPENED.append(str(args[0])) if event == "open" else None)


def test_a_folder_makes_a_dag_of_every_site_file(sites: Path) -> None:
    write(sites, "shop")
    write(sites, "blog", name="journal", work="../blog")
    found = site_dags(str(sites))
    assert sorted(found) == ["journal", "shop"]
    assert all(isinstance(dag, DAG) and dag.dag_id == name for name, dag in found.items())


def test_one_site_file_makes_one_dag_or_an_import_error(sites: Path) -> None:
    file = write(sites, "shop")
    assert site_dag(str(file)).dag_id == "shop"
    with pytest.raises(ConfigError, match="publsh"):
        site_dag(write(sites, "typo", publsh="x"))
    with pytest.raises(ConfigError, match=r"odd\.yaml: airflow\.executor: this Airflow has no executor"):
        site_dag(write(sites, "odd", airflow={"executor": "NoSuchExecutor"}))


def test_a_site_file_with_errors_is_left_out_and_its_error_raised_by_name(sites: Path) -> None:
    write(sites, "shop")
    raise_site_errors(sites)
    write(sites, "typo", publsh="x")
    write(sites, "odd", airflow={"executor": "NoSuchExecutor"})
    assert list(site_dags(sites)) == ["shop"]
    with pytest.raises(ConfigError) as raised:
        raise_site_errors(sites)
    assert [problem.partition(":")[0] for problem in raised.value.problems] == [
        str(sites / "typo.yaml"),
        str(sites / "odd.yaml"),
    ]


def test_a_folder_without_a_readable_site_file_is_an_error(sites: Path) -> None:
    with pytest.raises(ConfigError, match="the folder of site files does not exist"):
        site_dags(sites)
    write(sites, "typo", publsh="x")
    with pytest.raises(ConfigError, match="publsh"):
        site_dags(sites)


@pytest.mark.usefixtures("asked_for_shop")
def test_a_worker_reads_only_the_site_file_of_its_dag(sites: Path) -> None:
    for name in ("blog", "shop", "zoo"):
        write(sites, name, work=f"../{name}")
    OPENED.clear()
    (dag,) = site_dags(sites).values()
    raise_site_errors(sites)
    assert dag.dag_id == "shop"
    assert {Path(file).name for file in OPENED if file.startswith(str(sites))} == {"shop.yaml"}


@pytest.mark.usefixtures("asked_for_shop")
def test_a_worker_finds_a_site_whose_name_differs_from_its_file(sites: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(sites, "blog", work="../blog")
    assert site_dags(sites) == {}
    write(sites, "first", name="${WHO}", work="../first")
    with pytest.raises(ConfigError, match="the environment variable WHO is not set"):
        site_dags(sites)  # it might be the one
    monkeypatch.setenv("WHO", "shop")
    assert list(site_dags(sites)) == ["shop"]
    write(sites, "second", name="shop")
    assert list(site_dags(sites)) == ["shop"]


@pytest.mark.usefixtures("asked_for_shop")
def test_a_worker_reports_an_error_in_its_site_file(sites: Path) -> None:
    write(sites, "shop", publsh="x")
    with pytest.raises(ConfigError, match="publsh"):
        site_dags(sites)


def stored(dag: DAG) -> dict[str, Any]:
    found: dict[str, Any] = DagSerialization.to_dict(dag)["dag"]
    return found


def test_tasks_have_no_copy_of_the_params_and_a_stored_dag_takes_20_kilobytes(sites: Path) -> None:
    write(sites, "shop")
    dag = stored(site_dags(sites)["shop"])
    assert {name for name, _ in dag["params"]} >= {"sections", "force", "dry_run"}
    tasks = [task["__var"] for task in dag["tasks"]]
    assert len(tasks) == 14
    assert [task["task_id"] for task in tasks if task.get("params")] == []
    assert len(json.dumps(dag)) < 20_000


def test_a_stored_dag_does_not_depend_on_the_machine_that_parsed_it(tmp_path: Path) -> None:
    """Airflow makes a new version of a DAG if anything stored of it differs."""
    found = []
    for machine in ("one", "two"):
        (tmp_path / machine).mkdir()
        write(tmp_path / machine / "sites", "shop")
        dag = stored(site_dags(tmp_path / machine / "sites")["shop"])
        found.append(json.dumps({key: value for key, value in dag.items() if "fileloc" not in key}))
    assert found[0] == found[1]
    assert str(tmp_path) not in found[0]


def test_every_task_has_documentation(sites: Path) -> None:
    write(sites, "shop")
    dag = site_dags(sites)["shop"]
    assert [task.task_id for task in dag.tasks if not task.doc_md] == []
    assert dag.doc_md is not None
    assert [task.task_id for task in dag.tasks if f"`{task.task_id}`" not in dag.doc_md] == []


def test_an_import_that_airflow_interrupts_says_which_setting_to_raise(sites: Path) -> None:
    with pytest.raises(ConfigError) as raised, LoadTime(sites).limited():
        raise AirflowTaskTimeout("DagBag import timeout")
    assert "longer to become DAGs than the 30 seconds that Airflow allows" in str(raised.value)
    assert "AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT=60" in str(raised.value)
    assert "sitemap_etl.airflow.site_dag" in str(raised.value)


_PARSE = """
import sys
from sitemap_etl.airflow import loading, site_dags
from sitemap_etl.errors import ConfigError
serialise = loading.dag_serialiser
def slow():
    import time
    found = serialise()
    return found and (lambda dag: time.sleep(float(sys.argv[2])) or found(dag))
def _parse_file_entrypoint():  # the function of Airflow's process that parses DAG files
    return site_dags(sys.argv[1])
loading.dag_serialiser = slow
try:
    print(len((site_dags if sys.argv[3:] else lambda _: _parse_file_entrypoint())(sys.argv[1])))
except ConfigError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("limit", "arguments", "said"),
    [
        pytest.param("50", ["0"], "30", marks=pytest.mark.thorough),
        pytest.param("0", ["0"], "30", marks=pytest.mark.thorough),
        pytest.param("60", ["3"], "AIRFLOW__DAG_PROCESSOR__DAG_FILE_PROCESSOR_TIMEOUT=", marks=pytest.mark.thorough),
        ("1", ["0"], "than the 1 seconds that Airflow allows (dag_file_processor_timeout in section dag_processor)"),
        ("1", ["3", "another process"], "30"),
    ],
)
def test_a_parse_that_would_exceed_airflows_time_limit_is_an_import_error(
    sites: Path, limit: str, arguments: list[str], said: str
) -> None:
    for number in range(30):
        write(sites, f"site{number}", work=f"../{number}")
    assert said in parsed(sites, limit, *arguments)


def parsed(sites: Path, limit: str, *arguments: str) -> str:
    """Return what a process of Airflow that parses DAG files makes of the sites within `limit` seconds."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")}
    environ |= {"AIRFLOW_HOME": str(sites), "AIRFLOW__DAG_PROCESSOR__DAG_FILE_PROCESSOR_TIMEOUT": limit}
    command = [sys.executable, "-c", _PARSE, str(sites), *arguments]
    done = subprocess.run(command, cwd=PROJECT, env=environ, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[-1]


@pytest.mark.thorough
def test_the_parse_time_of_a_single_site_is_not_measured(sites: Path) -> None:
    write(sites, "shop")
    assert parsed(sites, "50", "100") == "1"  # nothing is serialized to measure its time


def test_the_dag_file_of_a_user_has_at_most_five_lines() -> None:
    for name in ("sitemaps.py", "sitemaps_broken.py"):
        text = (PROJECT / "dags" / name).read_text()
        document = ast.get_docstring(ast.parse(text), clean=False)
        assert document is not None
        code = [line for line in text.replace(f'"""{document}"""', "").splitlines() if line]
        assert len(code) <= 5
        assert "dag" in text.lower()  # Airflow passes over files without these two words
        assert "airflow" in text.lower()


def test_only_one_module_imports_airflow_outside_its_task_sdk() -> None:
    elsewhere = set()
    for path in (PROJECT / "sitemap_etl" / "airflow").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if any(name.split(".")[0] == "airflow" and name != "airflow.sdk" for name in names):
                elsewhere.add(path.name)
    assert elsewhere == {"compat.py"}


@pytest.mark.parametrize("version", ["2.11.0", "1.10.15"])
def test_airflow_2_is_refused_with_one_sentence(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(airflow.metadata, "version", lambda _name: version)
    with pytest.raises(ConfigError) as raised:
        airflow._demand_airflow_3()
    assert (
        str(raised.value) == f"sitemap_etl needs Airflow 3.0 or later, and this is Airflow {version}: upgrade Airflow"
    )
