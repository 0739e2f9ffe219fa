"""Update the generated parts of a page: `python -m sitemap_etl.check docs/reference/check-codes.md`."""

from __future__ import annotations

import sys
from pathlib import Path

from sitemap_etl.check.reference import written_into

if __name__ == "__main__":
    page = Path(sys.argv[1])
    page.write_text(written_into(page.read_text("utf-8")), "utf-8")
