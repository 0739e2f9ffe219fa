"""The pages inside Airflow's API server: who may see them, what they show, and what they say if they can't."""

from __future__ import annotations

import html
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import yaml

from tests.support.airflow import PROJECT, Airflow, DagRun
from tests.support.command import call

pytestmark = pytest.mark.thorough  # a whole Airflow; tests/test_report*.py has the pages

SITE = "https://shop.example"
USERS = {"admin": "admin:admin", "reader": "reader:viewer:shops", "stranger": "stranger:viewer:others"}


@dataclass(frozen=True)
class Page:
    """A response to a browser."""

    status: int
    headers: dict[str, str]
    text: str


class World:
    """An Airflow with one site, and three users, one of whom belongs to another team."""

    refused: DagRun

    def __init__(self, folder: Path, running: Airflow) -> None:
        self.airflow = running
        self.folder = folder
        self.sites = folder / "sites"
        self.sites.mkdir()
        self.work = folder / "work"
        (self.sites / "shop.yaml").write_text(
            yaml.safe_dump(
                {
                    "site": SITE,
                    "publish": {"to": "../public", "at": f"{SITE}/"},
                    "work": "../work",
                    "gates": {"max_drop": 0.1},
                    "sections": {"pages": {"from": {"csv": "../pages.csv"}}},
                }
            )
        )
        passwords = folder / "passwords.json"
        passwords.write_text(json.dumps(dict.fromkeys(USERS, "secret")))
        bundle = {
            "name": "dags-folder",
            "classpath": "airflow.dag_processing.bundles.local.LocalDagBundle",
            "kwargs": {"path": str(PROJECT / "dags")},
            "team_name": "shops",
        }
        running.environ |= {
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "False",
            "AIRFLOW__CORE__MULTI_TEAM": "True",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(USERS.values()),
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(passwords),
            "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps([bundle]),
            "AIRFLOW__API_AUTH__JWT_SECRET": "s" * 64,
            "AIRFLOW__API__SECRET_KEY": "k" * 64,
        }

    def pages(self, count: int) -> None:
        (self.folder / "pages.csv").write_text("loc\n" + "".join(f"/p/{n}\n" for n in range(count)))

    def run(self, conf: dict[str, Any] | None = None) -> Any:
        return self.airflow.run(self.sites, "shop", conf)

    def get(self, path: str, user: str | None = "reader") -> Page:
        answer, log = self.airflow.ask("get", {}, path=path, user=user, password="secret")
        assert "error" not in answer, f"{answer['error']}\n{log[-3000:]}"
        return Page(**answer)

    def follow(self, path: str) -> Page:
        """Return the page behind a link."""
        first = self.get(path)
        assert first.status == 307, first.text
        return self.get(str(Path(path).parent / first.headers["location"]).replace("/runs/../", "/"))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, airflow_process: Airflow) -> World:
    """The site after a run of the command, and a run of the DAG that a gate refused."""
    made = World(tmp_path_factory.mktemp("world"), airflow_process)
    answer, log = airflow_process.ask("belong", {}, teams=["shops", "others"])
    assert "error" not in answer, log[-3000:]
    airflow_process.describe(made.sites)
    made.pages(100)
    assert call("run", made.sites / "shop.yaml").code == 0
    made.pages(50)
    made.refused = made.run()
    return made


@pytest.mark.thorough
def test_report_pages_require_a_login_and_permission_to_read_the_dag(world: World) -> None:
    run = f"/sitemaps/shop/runs/{world.refused.run_id}"
    report = max(path.parent.name for path in world.work.glob("shop/reports/*/report.html"))
    for path in (
        "/sitemaps/shop",
        run,
        "/sitemaps/shop/reports/index.html",
        f"/sitemaps/shop/reports/{report}/report.html",
    ):
        seen = {user: world.get(path, user).status for user in (None, "stranger", "reader", "admin")}
        assert seen == {None: 401, "stranger": 403, "reader": seen["admin"], "admin": seen["admin"]}
        assert seen["admin"] in (200, 307)
    assert world.get("/sitemaps/", None).status == 401


@pytest.mark.thorough
def test_the_page_of_all_sites_lists_only_sites_that_the_user_may_read(world: World) -> None:
    mine, theirs = world.get("/sitemaps/"), world.get("/sitemaps/", "stranger")
    assert (mine.status, theirs.status) == (200, 200)
    seen = text_of(mine)
    assert "1 site of 1 needs a look" in seen
    assert "1 site, 100 URLs listed." in seen
    assert re.search(r"shop https://shop\.example refused pages would drop 50 of 100 URLs", seen)
    assert "shop.example" not in theirs.text
    assert "There is no DAG of a site that you may read." in text_of(theirs)


def test_a_tab_shows_the_report_of_its_run_and_of_all_runs(world: World) -> None:
    run = world.follow(f"/sitemaps/shop/runs/{world.refused.run_id}")
    assert "would drop 50 of 100 URLs" in text_of(run)
    site = world.follow("/sitemaps/shop")
    assert "<h1>shop: Refused</h1>" in site.text
    ways = re.findall(r'<a href="([^":]+)">', site.text)
    assert len(ways) >= 3
    for way in ways:  # nothing of the report leads out of the pages
        assert world.get(f"/sitemaps/shop/reports/{way}").status == 200


def test_the_task_publish_links_to_the_report_even_if_it_failed(world: World) -> None:
    link = world.refused.xcom("publish", "_link_ReportLink")
    assert link.endswith(f"/dags/shop/runs/{quote(world.refused.run_id)}/plugin/sitemap_report")


def test_report_pages_run_no_scripts_load_nothing_and_forbid_foreign_frames(world: World) -> None:
    for path in ("/sitemaps/", "/sitemaps/shop/reports/index.html", "/sitemaps/shop/runs/nope"):
        page = world.get(path)
        policy = page.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; style-src 'unsafe-inline';")
        assert "frame-ancestors 'self'" in policy
        assert "<script" not in page.text
        assert not re.search(r"""(src|href)=["'](https?:)?//""", page.text.replace(SITE, ""))


def test_only_report_pages_are_served(world: World) -> None:
    for path in (
        "reports/metrics.prom",
        "reports/runs.json",
        "reports/../../shop/state/current.json",
        "reports/x/report.html",
    ):
        assert world.get(f"/sitemaps/shop/{path}").status in (404, 405), path
    assert world.get(f"/sitemaps/shop/reports/{'20260101T000000Z-0000'}/report.html").status == 404


def test_report_pages_say_if_the_state_folder_cannot_be_read(world: World) -> None:
    hidden = world.work.with_name("elsewhere")
    world.work.rename(hidden)
    try:
        for replaced in (None, "a file"):  # a machine that lacks the folder; one that may not read it
            if replaced:
                world.work.write_text(replaced)
            sites, site = world.get("/sitemaps/"), world.get("/sitemaps/shop")
            run = world.get(f"/sitemaps/shop/runs/{world.refused.run_id}")
            assert sites.status == 200
            assert "failed" in text_of(sites)  # what Airflow knows
            assert "What can't be read from here" in text_of(sites)
            assert str(world.work) in sites.text
            for page in (site, run):
                assert page.status in (200, 404)
                assert str(world.work) in page.text
    finally:
        world.work.unlink(missing_ok=True)
        hidden.rename(world.work)


def test_an_edited_xcom_cannot_reach_folders_of_other_sites(world: World) -> None:
    other = world.folder / "other" / "reports"
    other.mkdir(parents=True)
    (other / "index.html").write_text("a secret")
    names = {"dag_id": "shop", "run_id": world.refused.run_id, "task_id": "plan", "key": "run"}
    before = world.airflow.ask("say", {}, **names, value=None)[0]["before"]
    try:
        for value in (
            str(world.folder / "other" / "runs" / "20260101T000000Z-0000"),
            f"{world.work}/shop/../../other/runs/20260101T000000Z-0000",
            f"{world.work}/shop/runs/../../../other",
            ["not", "text"],
        ):
            world.airflow.ask("say", {}, **names, value=value)
            for path in ("", "/reports/index.html", f"/runs/{world.refused.run_id}"):
                page = world.get(f"/sitemaps/shop{path}")
                assert page.status in (200, 404), (value, path)
                assert "a secret" not in page.text
            assert world.get("/sitemaps/").status == 200
    finally:
        world.airflow.ask("say", {}, **names, value=before)


def test_a_foreign_dag_and_an_unknown_run_have_different_messages(world: World) -> None:
    assert "Airflow knows no run nope" in text_of(world.get("/sitemaps/shop/runs/nope"))
    assert "This DAG makes no sitemaps" in text_of(world.get("/sitemaps/other", "admin"))


def text_of(page: Page) -> str:
    return " ".join(html.unescape(re.sub(r"(?s)<style>.*?</style>|<[^>]+>", " ", page.text)).split())
