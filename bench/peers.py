"""What other generators cost on the same rows, beside a first night: Django's sitemap framework, and npm's `sitemap`.

    python bench/peers.py [ROWS] [--django PYTHON] [--npm FOLDER] [--rounds 3]

PYTHON is an interpreter that has Django, FOLDER holds `node_modules/sitemap`; what is not named is left out. Each
gets the rows as lines of JSON, in order, with the texts that are published, and writes files of 50,000 URLs: Django
through its view and its template, a page at a time; `sitemap` through its SitemapAndIndexStream, gzipped. Both
neither check nor compare nor keep anything. Every figure is the processor time of a whole process; that of one that
only reads the same lines is taken off theirs. A first night has a fixed cost, which few rows show: beside millions,
compare what a row costs in `nights.py`.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

import pyarrow.parquet as pq
from nights import cost, exports, fresh

DJANGO = """
import json, sys
from datetime import datetime
rows = [json.loads(line) for line in open(sys.argv[1])]
if len(sys.argv) > 2:
    import django
    from django.conf import settings
    settings.configure(
        ROOT_URLCONF="peers_urls", USE_TZ=True,
        INSTALLED_APPS=["django.contrib.sitemaps"], ALLOWED_HOSTS=["*"],
        TEMPLATES=[{"BACKEND": "django.template.backends.django.DjangoTemplates", "APP_DIRS": True}],
    )
    django.setup()
    from django.contrib.sitemaps import Sitemap
    from django.contrib.sitemaps.views import sitemap
    from django.test import RequestFactory
    class Pages(Sitemap):
        limit = 50_000
        protocol = "https"
        def items(self): return rows
        def location(self, row): return row["path"]
        def lastmod(self, row): return datetime.fromisoformat(row["lastmod"])
        def priority(self, row): return row["priority"]
        def get_domain(self, site=None): return "www.shop.example"
    found = {"pages": Pages()}
    for page in range(1, found["pages"].paginator.num_pages + 1):
        request = RequestFactory().get("/sitemap.xml", {"p": page})
        open(f"{sys.argv[2]}/sitemap-{page}.xml", "wb").write(
            sitemap(request, found, section="pages").render().content
        )
"""
NPM = """
const { createReadStream, createWriteStream } = require("fs");
const { createGzip } = require("zlib");
const { createInterface } = require("readline");
const { Readable } = require("stream");
const [rows, to] = process.argv.slice(2);
async function* lines() {
  for await (const line of createInterface({ input: createReadStream(rows) })) {
    const { path, lastmod, priority } = JSON.parse(line);
    yield { url: "https://www.shop.example" + path, lastmod, priority };
  }
}
(async () => {
  if (!to) { for await (const _ of lines()); return; }
  const { SitemapAndIndexStream, SitemapStream } = require("sitemap");
  const stream = new SitemapAndIndexStream({
    limit: 50000,
    getSitemapStream: (at) => {
      const made = new SitemapStream({ hostname: "https://www.shop.example" });
      const file = made.pipe(createGzip()).pipe(createWriteStream(`${to}/sitemap-${at}.xml.gz`));
      return [`https://www.shop.example/sitemap-${at}.xml.gz`, made, file];
    },
  });
  const index = stream.pipe(createGzip()).pipe(createWriteStream(`${to}/sitemap.xml.gz`));
  Readable.from(lines()).pipe(stream);
  await new Promise((done, failed) => { index.on("finish", done); stream.on("error", failed); });
})();
"""


def put_lines(folder: Path) -> Path:
    """The rows of the export as lines of JSON, in order of their URLs, with the texts that are published."""
    table = pq.read_table(folder / "a").sort_by("loc")
    lines = folder / "rows.jsonl"
    with lines.open("w") as file:
        for row in table.to_pylist():
            path = row["loc"].removeprefix("https://www.shop.example")
            written = {"path": path, "lastmod": f"{row['lastmod']:%Y-%m-%dT%H:%M:%SZ}", "priority": 0.5}
            file.write(json.dumps(written) + "\n")
    return lines


def first_night(folder: Path) -> float:
    """Seconds of a processor that a first night over the export takes, with its imports, its state and its report."""
    with fresh(folder) as site:
        (site / "export").symlink_to(folder / "a")
        return cost(
            [str(Path(sys.executable).with_name("sitemap-etl")), "run", "site.yaml", "--no-ping"], site
        ).processor


def peer(command: list[str], folder: Path, rows: Path) -> float:
    """Seconds of a processor that a peer takes to make files of the rows, beyond reading them."""
    with tempfile.TemporaryDirectory(dir=folder) as to:
        whole = cost([*command, str(rows), to], folder)
        made = len(list(Path(to).iterdir()))
    assert made >= 1, whole.said
    return whole.processor - cost([*command, str(rows)], folder).processor


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="?", type=int, default=500_000)
    parser.add_argument("--django", metavar="PYTHON")
    parser.add_argument("--npm", type=Path, metavar="FOLDER")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    found: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        exports(folder, "plain", arguments.rows)
        rows = put_lines(folder)
        commands = {}
        if arguments.django:
            (folder / "peers_django.py").write_text(DJANGO)
            (folder / "peers_urls.py").write_text("urlpatterns = []\n")
            commands["Django"] = [arguments.django, str(folder / "peers_django.py")]
        if arguments.npm:
            (arguments.npm / "peers_npm.js").write_text(NPM)
            commands["npm sitemap"] = ["node", str(arguments.npm / "peers_npm.js")]
        for _ in range(arguments.rounds):
            found.setdefault("first night", []).append(first_night(folder))
            for name, command in commands.items():
                found.setdefault(name, []).append(peer(command, folder, rows))
    least = min(found["first night"])
    for name, seconds in found.items():
        micro = min(seconds) / arguments.rows * 1e6
        print(f"{name:12} {micro:7.2f} µs a row, {min(seconds) / least:5.1f} × a first night")


if __name__ == "__main__":
    main()
