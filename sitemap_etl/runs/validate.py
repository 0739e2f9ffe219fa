"""Checks before a run: hooks, and with --connect also sources, storages, secrets and engines."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from sitemap_etl.config import Section, Site, revealed
from sitemap_etl.errors import ConfigError, InvalidSource, SitemapEtlError
from sitemap_etl.frames import Tally
from sitemap_etl.frozen import Frozen
from sitemap_etl.limits import ROWS_READ_FROM
from sitemap_etl.runs.compare import check_target
from sitemap_etl.runs.trial import Trial, try_section
from sitemap_etl.stages.about import about
from sitemap_etl.stages.ping import engines_of, ready_engine
from sitemap_etl.stages.plan import key_missing, own_robots
from sitemap_etl.stages.rules import rules_of
from sitemap_etl.stages.run import Environment, open_public, open_work, state_of
from sitemap_etl.state import layout
from sitemap_etl.state.conditions import try_writes

_SHOWN: Final = 3
"""Reasons shown per section."""


class Problem(Frozen):
    """One problem as a line of text. `error` tells its kind."""

    text: str
    error: SitemapEtlError

    def __str__(self) -> str:
        return self.text


def problems_of(
    site: Site,
    *,
    connect: bool,
    environment: Environment | None = None,
    against: str | None = None,
    tried: Callable[[str], None] = lambda _line: None,
) -> list[Problem]:
    """Return all problems of a site.

    `connect`: run 1,000 rows of every section through its rules, access storages and read secrets. Notes about the rows
    are logged. `against`: the sitemap that a run will be compared with. `tried` receives a line for each check that
    succeeded.
    """
    environment = environment or Environment()
    problems: list[Problem] = []
    stored = _storages(site, environment, tried) if connect else []
    robots: bytes | None = None
    if connect and not stored:
        try:
            robots = _robots(site, environment)
        except SitemapEtlError as error:
            stored = _problems("work" if not site.urls.respect_robots else "urls.respect_robots", error)
    for name, section in site.sections.items():
        try:
            rules_of(site, section, environment.clock(), None)
            problem = key_missing(section, environment)
            if problem is not None:
                problems.append(Problem(problem, ConfigError([problem])))
            elif connect:
                with about(section=name):
                    trial = try_section(site, name, environment, robots)
                    problems += _tried(section, trial, environment, tried)
        except SitemapEtlError as error:
            problems += _problems(f"section {name}", error)
    problems += stored
    if connect:
        for name in engines_of(site):
            what = "its secrets were read; no request was sent"
            problems += _attempt(f"ping.{name}", what, partial(ready_engine, site, name, environment), tried)
        reveal = partial(revealed, "notify", site.notify, environment.environ)
        asked = site.notify != type(site.notify).standard()
        problems += _attempt("notify", "its secrets were read; no message was sent" if asked else "", reveal, tried)
    if against is not None:
        problems += _attempt("--against", f"{against} was read", partial(check_target, against), tried)
    return problems


def _attempt(where: str, what: str, step: Callable[[], object], tried: Callable[[str], None]) -> list[Problem]:
    """Return the problems of a check. If it has none, report `what`, unless that is empty."""
    try:
        step()
    except SitemapEtlError as error:
        return _problems(where, error)
    if what:
        tried(f"{where}: {what}")
    return []


def _problems(where: str, error: SitemapEtlError) -> list[Problem]:
    texts = error.problems if isinstance(error, ConfigError) else (str(error),)
    return [Problem(text if text.startswith((where, "sections.")) else f"{where}: {text}", error) for text in texts]


def _storages(site: Site, environment: Environment, tried: Callable[[str], None]) -> list[Problem]:
    """Try a run's writes on every storage, remove the written objects, and return the problems."""
    publish = site.publish
    problems: list[Problem] = []
    root = publish.root if publish.root != publish.to else None
    written = "an object was written and removed in"
    steps: list[tuple[str, str, Callable[[], object]]] = [
        ("work", f"{written} {site.work}", lambda: try_writes(open_work(site, environment), layout.PROBE)),
        (
            "publish.to",
            f"{written} {publish.to}",
            lambda: try_writes(open_public(site, publish.to, environment), layout.PUBLIC_PROBE),
        ),
    ]
    if root is not None:
        storage = partial(open_public, site, root, environment)
        if root.startswith("s3://"):  # robots.txt is all that a job needs to be allowed there
            steps.append(("publish.root", f"robots.txt was looked up in {root}", lambda: storage().stat("robots.txt")))
        else:
            steps.append(("publish.root", f"{written} {root}", lambda: try_writes(storage(), layout.PUBLIC_PROBE)))
    for key, what, step in steps:
        problems += _attempt(key, what, step, tried)
    return problems


def _robots(site: Site, environment: Environment) -> bytes | None:
    """Return the robots.txt that applies to the site. Raise Refused if the state belongs to another site."""
    state = state_of(site, environment)
    current = state.current()
    if not site.urls.respect_robots:
        return None
    return own_robots(site, state, current, environment, environment.clock()).text


def _tried(section: Section, trial: Trial, environment: Environment, tried: Callable[[str], None]) -> list[Problem]:
    """Return the problems of a section's rows, and log other observations."""
    where = f"section {section.name}"
    if not trial.lacks:
        tried(f"{where}: {trial.rows:,} rows read, {trial.listed:,} can be listed")
    problems = [Problem(f"{where}: {text}", InvalidSource(text)) for text in trial.lacks]
    rejected = trial.rejected.total
    if rejected and not trial.listed:
        text = f"none of the {trial.rows:,} rows that were read can be listed: {_reasons(trial.rejected)}"
        return [*problems, Problem(f"{where}: {text}", InvalidSource(text))]
    if rejected:
        share, most = rejected / trial.rows, section.gates.max_rejected
        told = f"{where}: {rejected:,} of {trial.rows:,} rows that were read are rejected: {_reasons(trial.rejected)}"
        if trial.rows >= ROWS_READ_FROM and share > most:
            told += f". That is {share:.1%}: if all rows are like these, the gate max_rejected ({most:g}) refuses a run"
        environment.log(told)
    elif not trial.rows and not trial.lacks:
        environment.log(f"{where}: its source has no rows. The gate min_urls refuses a run without pages")
    elif trial.rows and not trial.listed:
        environment.log(f"{where}: all {trial.rows:,} rows that were read are excluded: {_reasons(trial.excluded)}")
    for reason in trial.notes.ordered()[:_SHOWN]:
        environment.log(f"{where}: {reason.as_dropped()}{_example(reason.examples)}")
    return problems


def _reasons(tally: Tally) -> str:
    return "; ".join(f"{one.text} ({one.count:,}{_example(one.examples)})" for one in tally.ordered()[:_SHOWN])


def _example(examples: tuple[str, ...]) -> str:
    return f", e.g. {examples[0]}" if examples else ""
