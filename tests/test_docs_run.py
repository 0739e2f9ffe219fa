"""The tutorial and the how-to pages work as written: their files are made, their commands run, in order."""

from __future__ import annotations

import configparser
import gzip
import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.documents import DOCS, ROOT, all_blocks
from tests.support.s3 import S3Server

BIN = Path(sys.executable).parent
HOW_TO = DOCS / "how-to"
TUTORIAL = DOCS / "tutorial"
FIVE_MINUTES = TUTORIAL / "five-minutes.md"


def script(*pages: Path) -> str:
    """Return a script of these pages: their files are written, and their blocks marked `sh` run."""
    steps = []
    for block in (block for page in pages for block in all_blocks(page)):
        if block.file and not block.file.startswith("/") and "." in block.file:
            name = shlex.quote(block.file)
            steps.append(f"mkdir -p \"$(dirname {name})\"\ncat > {name} <<'=====END====='\n{block.text}=====END=====\n")
        elif block.language == "sh":
            steps.append(block.text)
    return "\n".join(steps)


def follow(text: str, folder: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run a script as a new user would, with nothing in the environment but this."""
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", text],
        cwd=folder,
        env={"PATH": f"{BIN}:/usr/bin:/bin", "HOME": str(folder), "LANG": "C.UTF-8", **environ},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def said(done: subprocess.CompletedProcess[str]) -> str:
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def tutorial(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the tutorial after its first page."""
    folder = tmp_path_factory.mktemp("tutorial")
    done = follow(script(FIVE_MINUTES), folder)
    assert "no problems found" in done.stdout
    return folder / "shop"


@pytest.fixture
def copied(tutorial: Path, tmp_path: Path) -> Path:
    """Return a folder with the export and the site file of that page, before the first run."""
    shop = tmp_path / "shop"
    shutil.copytree(tutorial, shop, ignore=shutil.ignore_patterns(".sitemap-etl", "public"))
    return shop


@pytest.fixture
def shop(copied: Path) -> Path:
    """Return the same after a run. A state does not work in a copy."""
    follow("sitemap-etl run shop.yaml", copied)
    return copied


def test_every_tutorial_and_how_to_with_commands_is_run() -> None:
    pages = {
        page.relative_to(DOCS).as_posix()
        for page in [*TUTORIAL.glob("*.md"), *HOW_TO.glob("*.md")]
        if any(block.language == "sh" and not block.file for block in all_blocks(page))
    }
    assert pages == {f"how-to/{name}.md" for name in SAYS} | {
        f"tutorial/{name}.md" for name in ("five-minutes", "database", "airflow", "s3")
    }


@pytest.mark.thorough
def test_the_quick_start_of_the_readme_works_as_written(tmp_path: Path) -> None:
    text = script(ROOT / "README.md")
    assert text.count("sitemap-etl run") == 2
    done = follow(text, tmp_path)
    assert "no problems found" in done.stdout
    file = tmp_path / "shop" / "public" / "sitemap-pages-00001.xml.gz"
    assert "https://shop.example/lamps/gr%C3%B6%C3%9Fe-10" in gzip.decompress(file.read_bytes()).decode()


@pytest.mark.thorough
def test_the_tutorial_on_s3_works_as_written(copied: Path, moto: S3Server) -> None:
    client = moto.client()
    for bucket in ("shop-public", "shop-private"):
        client.create_bucket(Bucket=bucket)
        for listed in client.list_objects_v2(Bucket=bucket).get("Contents", []):
            client.delete_object(Bucket=bucket, Key=listed["Key"])
    done = follow(script(TUTORIAL / "s3.md"), copied, **moto.env)
    assert "no problems found" in done.stdout
    keys = {listed["Key"] for listed in client.list_objects_v2(Bucket="shop-public")["Contents"]}
    assert keys >= {"sitemap.xml", "sitemap-pages-00001.xml.gz"}


@pytest.mark.thorough
def test_the_tutorial_works_as_written(copied: Path) -> None:
    """A database and Airflow continue the first page."""
    done = follow(script(TUTORIAL / "database.md", TUTORIAL / "airflow.md"), copied, CLONE=str(ROOT))
    assert "sold out" in done.stdout
    assert "exit code 1" in done.stdout
    assert "max_drop" in done.stderr
    for folder in ("lamps", "lamps-by-airflow"):
        listed = copied / folder / "sitemap-products-00001.xml.gz"
        sitemap = gzip.decompress(listed.read_bytes()).decode()
        assert (sitemap.count("<loc>"), sitemap.count("<image:loc>")) == (980, 1960), said(done)


SAYS = {
    "alerts": ["ALERT: exit code 2"],
    "cdn": ["cdn.yaml", "other-host.yaml"],
    "check": ["no problems found", "lastmod-all-same"],
    "check-in-ci": ["findings written"],
    "dry-run": ["dry run", "nearest"],
    "hreflang": ['hreflang="x-default"', "no problems found"],
    "incremental": ["carried", "/p/lamp-8"],
    "late-source": ["exit code 3", "/news/opening"],
    "leave": ["no problems found", "https://shop.example/lamps/"],
    "migrate": ["forgotten", "exit code 1", "--adopt", "no problems found"],
    "news": ["<news:name>Lamp Times</news:name>", "older than 48 hours"],
    "refused": ["exit code 1", "ten pages were retired"],
    "rollback": ["a page that should not exist"],
    "several-sites": ["outlet"],
    "shop-exports": ["GROUP BY Handle", "which is a guess", "/media/catalog/product/", "'/store/products/' || Handle"],
    "upgrade": ["dry run", "unchanged"],
}
"""What a reader of each page sees at least."""


CHANGES = ["alerts", "leave", "rollback", "upgrade"]
"""The pages that change the site of the tutorial and put it back."""
ALONE = ["cdn", "hreflang", "incremental", "news", "refused", "shop-exports"]
"""The pages that need nothing of the tutorial. All others say that they continue it."""
ORDERS = [
    ["check", "alerts", "leave", "dry-run", "migrate", "rollback", "upgrade"],
    [
        "late-source",
        "upgrade",
        "check-in-ci",
        "rollback",
        "several-sites",
        "leave",
        "alerts",
    ],
    ["leave", "alerts", "upgrade", "rollback"],
]


def shared(shop: Path) -> dict[str, bytes | None]:
    """Return what pages share after the tutorial: its files, and the names of the published ones."""
    files: dict[str, bytes | None] = {name: (shop / name).read_bytes() for name in ("shop.yaml", "exports/pages.csv")}
    return files | dict.fromkeys(path.name for path in sorted((shop / "public").iterdir()))


@pytest.mark.thorough
@pytest.mark.parametrize("order", ORDERS, ids="-".join)
def test_the_how_tos_work_in_any_order_in_one_folder(order: list[str], shop: Path) -> None:
    before = shared(shop)
    for name in order:
        text = said(follow(script(HOW_TO / f"{name}.md"), shop))
        assert [words for words in SAYS[name] if words.lower() not in text.lower()] == [], text
        assert shared(shop) == before, name


@pytest.mark.thorough
@pytest.mark.parametrize("name", ALONE)
def test_a_how_to_that_does_not_continue_the_tutorial_works_in_an_empty_folder(name: str, tmp_path: Path) -> None:
    text = said(follow(script(HOW_TO / f"{name}.md"), tmp_path))
    assert [words for words in SAYS[name] if words.lower() not in text.lower()] == [], text


def test_a_how_to_that_needs_the_files_of_the_tutorial_says_so() -> None:
    continued = "The examples continue the [tutorial](../tutorial/five-minutes.md)"
    saying = {page.stem for page in HOW_TO.glob("*.md") if continued in page.read_text("utf-8")}
    assert saying == set(SAYS) - set(ALONE)


def test_every_how_to_is_in_one_tested_order_and_site_changing_ones_in_all_orders() -> None:
    assert {name for order in ORDERS for name in order} == set(SAYS) - set(ALONE)
    assert all(set(CHANGES) <= set(order) for order in ORDERS)


def test_no_two_how_tos_write_the_same_file() -> None:
    written = [block.file for name in SAYS for block in all_blocks(HOW_TO / f"{name}.md") if block.file]
    assert "exports/articles.csv" in written
    assert len(set(written)) == len(written)


def files(page: Path) -> dict[str, str]:
    return {block.file: block.text for block in all_blocks(page) if block.file}


NIGHTLY = files(HOW_TO / "nightly.md")
SECRETS = "/etc/sitemap-etl/shop.env"


@pytest.fixture
def machine(copied: Path, tmp_path: Path) -> dict[str, str]:
    """Return the paths of the how-to on scheduling, and their counterparts here."""
    secrets = tmp_path / "shop.env"
    secrets.write_text(NIGHTLY[SECRETS])
    return {"/opt/sitemap-etl/bin": str(BIN), "/srv/sitemaps": str(copied), SECRETS: str(secrets)}


def here(text: str, machine: dict[str, str]) -> str:
    for there, path in machine.items():
        text = text.replace(there, path)
    return text


@pytest.mark.thorough
def test_the_line_for_cron_runs_in_the_environment_of_cron(machine: dict[str, str]) -> None:
    (line,) = [line for line in NIGHTLY["/etc/cron.d/sitemaps-shop"].splitlines() if line[:1].isdigit()]
    *when, user, command = line.split(None, 6)
    assert (when, user) == (["0", "2", "*", "*", "*"], "sitemaps")
    assert "%" not in command  # cron ends the command there
    bare = {"PATH": "/usr/bin:/bin", "HOME": "/", "SHELL": "/bin/sh"}
    night = ["/bin/sh", "-c", here(command, machine)]
    done = subprocess.run(night, cwd="/", env=bare, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    shop = Path(machine["/srv/sitemaps"])
    assert json.loads((shop / "last.json").read_text())["status"] == "published"
    (shop / "exports" / "pages.csv").unlink()
    done = subprocess.run(night, cwd="/", env=bare, capture_output=True, text=True, check=False)
    assert "pages.csv" in done.stderr


def unit(name: str) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(NIGHTLY[f"/etc/systemd/system/{name}"])
    return parser


@pytest.mark.thorough
def test_the_systemd_service_runs_with_its_documented_settings(machine: dict[str, str]) -> None:
    service = unit("sitemaps-shop.service")["Service"]
    assert service["EnvironmentFile"] == SECRETS
    given = dict(line.split("=", 1) for line in NIGHTLY[SECRETS].splitlines())
    done = subprocess.run(
        shlex.split(here(service["ExecStart"], machine)),
        cwd=here(service["WorkingDirectory"], machine),
        env=given,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.thorough
def test_systemd_accepts_the_documented_units(machine: dict[str, str], tmp_path: Path) -> None:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd-analyze is not installed")
    paths = []
    for name in ("sitemaps-shop.service", "sitemaps-shop.timer"):
        path = tmp_path / name
        text = here(NIGHTLY[f"/etc/systemd/system/{name}"], machine).replace("User=sitemaps", "User=root")
        path.write_text(text)
        paths.append(str(path))
    done = subprocess.run([program, "verify", *paths], capture_output=True, text=True, check=False)
    assert "Unknown" not in done.stderr, done.stderr
    assert "Failed to parse" not in done.stderr, done.stderr


def test_every_file_that_a_page_has_the_reader_write_is_used() -> None:
    """A page uses the files that it has the reader write."""
    for page in (*TUTORIAL.glob("*.md"), *HOW_TO.glob("*.md")):
        text = page.read_text()
        for name in (name for name in files(page) if re.search(r"\.(csv|sql|sh)$", name)):
            assert text.count(name.rpartition("/")[2]) > 1, f"{page.name}: nothing uses {name}"
