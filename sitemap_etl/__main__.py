"""`python -m sitemap_etl` is the command `sitemap-etl`."""

from __future__ import annotations

from sitemap_etl.cli import main

if __name__ == "__main__":
    main()
