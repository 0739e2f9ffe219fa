"""How the DAG of a site runs: keys that the command has no use for."""

from __future__ import annotations

from pydantic import Field

from sitemap_etl.settings.kinds import Integer, Settings


class Airflow(Settings):
    """How the DAG runs."""

    small: Integer = Field(
        default=2_000_000,
        ge=0,
        description="Rows up to which one task does everything from extract to render, because each task costs "
        "seconds of its own. `0`: never.",
    )
