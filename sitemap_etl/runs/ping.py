"""Notify search engines by hand."""

from __future__ import annotations

from sitemap_etl.config import Site
from sitemap_etl.errors import ConfigError
from sitemap_etl.stages.about import note
from sitemap_etl.stages.ping import engines_of, notify, ping_engine, put_by_hand, settled_answer
from sitemap_etl.stages.run import Environment
from sitemap_etl.state.records import Answered


def ping_by_hand(
    site: Site, environment: Environment, *, engines: tuple[str, ...], since: str | None, everything: bool
) -> dict[str, Answered]:
    """Notify engines of the current release, or of all changes since a run, and return their answers."""
    known = engines_of(site)
    if not known:
        raise ConfigError(
            f"{site.name}: the site file has no search engines. Add one under ping:, such as "
            "indexnow: {key: ${INDEXNOW_KEY}}. `sitemap-etl schema` describes all of them"
        )
    unknown = [name for name in engines if name not in known]
    if unknown:
        raise ConfigError(f"{site.name}: the site file has no engine {', '.join(unknown)}. It has: {', '.join(known)}")
    asked = engines or known
    run_id = put_by_hand(site, environment, asked, since=since, everything=everything)
    note(run=run_id, stage="ping")
    return notify(site, run_id, asked, environment, _ask)


def _ask(site: Site, run_id: str, engine: str, environment: Environment) -> Answered:
    """Return the engine's answer. If nothing is pending, return its last one."""
    settled = settled_answer(site, run_id, engine, environment)
    if settled is None:
        return ping_engine(site, run_id, engine, environment)
    told = f"nothing is pending. At run {run_id}: {settled.status}: {settled.message}"
    return Answered(engine, "nothing", 0, told, settled.details)
