"""Write the generated parts of a page, in place or to another file: `python -m sitemap_etl.check PAGE [FILE]`."""

from __future__ import annotations

import sys
from pathlib import Path

from sitemap_etl.check.reference import written_into

if __name__ == "__main__":
    page, built = Path(sys.argv[1]), Path(sys.argv[-1])
    built.write_text(written_into(page.read_text("utf-8")), "utf-8")
