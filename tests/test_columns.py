"""The table of columns: what follows from a column's role, and a tag of an entry that is added to a copy of it."""

from __future__ import annotations

import csv
import gzip
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import sitemap_etl
from sitemap_etl.frames import INVENTORY, SNAPSHOT


def test_the_tables_have_the_columns_of_the_state_format_in_its_order() -> None:
    """Snapshots are named by their bytes: another order would store all rows again."""
    extensions = ["images", "videos", "news", "alternates", "mobile", "title"]
    clusters = ["cluster", "hreflang"]
    assert SNAPSHOT.names == [
        *("loc", "lastmod", "changefreq", "priority", *extensions, "fingerprint", *clusters, "since")
    ]
    assert INVENTORY.names == [
        *("loc", "changefreq", "priority", *extensions, "moment", "fingerprint", "signal", *clusters, "row", "key")
    ]


# --- a new tag ---------------------------------------------------------------------------------------

NAMESPACE = "https://badge.example/ns"
ELEMENT = f'Element(elements.escaped_texts, "b:badge", prefix="b", namespace="{NAMESPACE}")'
ADDED = {
    "columns.py": ('    Column("title",', f'    Column("badge", pa.string(), Role.CONTENT, {ELEMENT}, weight=1),\n'),
    "settings/section.py": ('    "mobile",\n)', '    "badge",\n'),
    "transform/columns.py": (
        '    if "mobile" in names:',
        '    if "badge" in names:\n        columns["badge"] = extensions.cleaned(column_of(source, "badge"))\n',
    ),
    "render/parse.py": ('    row["mobile"] =', f'    row["badge"] = _text(entry, "{NAMESPACE}", "badge")\n'),
}
"""File → the text before which lines are added, and these lines."""
FORMER = Path(sitemap_etl.__file__).parent.parent


def with_tag(folder: Path) -> Path:
    """Copy the package, add the tag, and return the folder to import it from."""
    copy = folder / "sitemap_etl"
    shutil.copytree(FORMER / "sitemap_etl", copy, ignore=shutil.ignore_patterns("__pycache__"))
    for name, (place, line) in ADDED.items():
        text = (copy / name).read_text()
        assert text.count(place) == 1, name
        (copy / name).write_text(text.replace(place, line + place))
    return folder


class Shop:
    """A site that is run by one package or the other."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "shop.yaml").write_text(
            "site: https://shop.example\npublish: ./public\n"
            "sections: {pages: {from: {csv: pages.csv}, lastmod: {fingerprint: [body]}}}\n"
        )

    def run(self, package: Path, day: int, rows: list[dict[str, str]]) -> dict[str, Any]:
        with (self.folder / "pages.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
        command = ["-m", "sitemap_etl", "run", "shop.yaml", "--json", "--now", f"2026-03-{day:02}T00:00:00Z"]
        return dict(json.loads(self.python(package, *command, "--reason", "another day")))

    def python(self, package: Path, *arguments: str) -> str:
        environ = {**os.environ, "PYTHONPATH": str(package), "PYTHONSAFEPATH": "1"}
        command = [sys.executable, *arguments]
        done = subprocess.run(command, cwd=self.folder, env=environ, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    @property
    def entries(self) -> list[str]:
        (file,) = (self.folder / "public").glob("sitemap-pages-*.xml.gz")
        return gzip.decompress(file.read_bytes()).decode().splitlines()[1:-1]


@pytest.mark.thorough
def test_a_tag_is_added_in_five_files_at_most_and_reads_the_state_of_a_former_release(tmp_path: Path) -> None:
    assert len(ADDED) <= 5
    newer, shop = with_tag(tmp_path / "package"), Shop(tmp_path)
    rows = [{"loc": f"/{n}", "body": str(n)} for n in range(30)]
    shop.run(FORMER, 1, rows)
    rows[0]["body"] = "another"
    shop.run(FORMER, 2, rows)
    assert "xmlns:b" not in shop.entries[0]
    dated = shop.entries[1]
    assert dated == "<url><loc>https://shop.example/0</loc><lastmod>2026-03-02T00:00:00Z</lastmod></url>"
    assert shop.run(newer, 3, rows)["files"]["written"] == 0, "without the column, an upgrade writes nothing"

    rows = [{**row, "badge": "new & <hot>" if row["loc"] == "/0" else ""} for row in rows]
    assert shop.run(newer, 4, rows)["sections"]["pages"]["changed"] == 0
    tagged = dated.replace("</url>", "<b:badge>new &amp; &lt;hot&gt;</b:badge></url>")
    assert f'xmlns:b="{NAMESPACE}"' in shop.entries[0]
    assert shop.entries[1] == tagged
    assert sum("<b:badge>" in entry for entry in shop.entries) == 1

    assert shop.run(newer, 5, rows)["files"]["written"] == 0
    assert shop.run(newer, 6, [*rows, {"loc": "/new", "body": "x", "badge": ""}])["sections"]["pages"]["added"] == 1
    assert shop.entries[1] == tagged, "it is kept when the file is written for another page"
    recovered = (
        "import gzip, glob; from sitemap_etl.render.parse import rows_of\n"
        "(file,) = glob.glob('public/sitemap-pages-*'); rows = rows_of(gzip.open(file).read())\n"
        "print(rows.column('badge').drop_null().to_pylist())"
    )
    assert shop.python(newer, "-c", recovered) == "['new & <hot>']\n"
    assert shop.run(FORMER, 7, rows)["sections"]["pages"]["changed"] == 0, "a downgrade reads the newer state"
    assert shop.entries[1] == dated
