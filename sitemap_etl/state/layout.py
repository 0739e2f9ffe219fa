"""Every key under `<work>/<name>/`: the one place that knows where something lies.

    state/current.json                 what is published; replaced by compare-and-swap only
    state/manifest-<run>.json          a published set
    state/intent-<run>.json            what a publish is about to write and delete; kept while its keys are suspect
    state/snapshots/<hash>.arrow       rows as published
    state/robots/<hash>.txt            the site's robots.txt as it was last read
    state/mirrors/<section>/           the rows of a source that is read incrementally, as they were extracted
    state/changes/<run>/               what the engines are to hear
    state/ledger/<engine>.json         what an engine has heard
    state/adopted/<run>/               copies of objects of others that were replaced
    state/runs/<run>.json              what became of a run, for a year
    state/conditions/<store>.json      that a store keeps to conditions
    state/lease.json                   who is at it
    reports/<run>/                     what a run found
    reports/index.html, latest.html    all runs; the page of the last one
    reports/runs.json                  the last runs in a few words each
    reports/metrics.prom               the last run as metrics
    runs/<run>/                        what a run stages

Keys of the last are relative to the run's folder: a local run stages elsewhere.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

STATE: Final = "state/"
CURRENT: Final = "state/current.json"
LEASE: Final = "state/lease.json"
SNAPSHOTS: Final = "state/snapshots/"
CHANGES: Final = "state/changes/"
MIRRORS: Final = "state/mirrors/"
ROBOTS: Final = "state/robots/"
LEDGERS: Final = "state/ledger/"
ADOPTED: Final = "state/adopted/"
ATTEMPTS: Final = "state/runs/"
REPORTS: Final = "reports/"
RUNS: Final = "runs/"
MANIFESTS: Final = "state/manifest-"
INTENTS: Final = "state/intent-"
_RUN_ID: Final = re.compile(r"[0-9]{8}T[0-9]{6}Z-[0-9a-f]{4}")
_CONDITIONS: Final = "state/conditions/"


def is_run_id(text: str) -> bool:
    """Whether a text is the id of a run: no other names a key of one."""
    return _RUN_ID.fullmatch(text) is not None


def run_of(key: str) -> str:
    """The run that a key of its changes, of its reports or of its folder is of; of other keys an empty text."""
    folder = next((folder for folder in (CHANGES, REPORTS, RUNS) if key.startswith(folder)), key)
    run_id, below, _ = key.removeprefix(folder).partition("/")
    return run_id if below else ""


def manifest(run_id: str) -> str:
    """A run's manifest."""
    return f"{MANIFESTS}{run_id}.json"


def run_of_manifest(key: str) -> str:
    """The run that a manifest is of."""
    return key.removeprefix(MANIFESTS).removesuffix(".json")


def intent(run_id: str, number: int) -> str:
    """The intent of a run's n-th claim: an earlier try of the run must not take a later claim for its own."""
    return f"{INTENTS}{run_id}{'' if number == 1 else f'-{number}'}.json"


def snapshot(digest: str) -> str:
    """Rows as published, by the SHA-256 of their bytes (40 digits of it)."""
    return f"{SNAPSHOTS}{digest[:40]}.arrow"


def robots(digest: str) -> str:
    """A robots.txt, by the SHA-256 of its bytes (40 digits of it)."""
    return f"{ROBOTS}{digest[:40]}.txt"


def mirror(section: str, run_id: str) -> str:
    """A generation of a section's mirror: which files it is made of."""
    return f"{MIRRORS}{section}/{run_id}.json"


def mirror_file(section: str, run_id: str, name: str) -> str:
    """A file of a section's mirror; `name` is an attempt's own."""
    return f"{MIRRORS}{section}/{run_id}/{name}.parquet"


def changes(run_id: str) -> str:
    """The URLs that a run added, changed and removed."""
    return f"{CHANGES}{run_id}/changes.parquet"


_NOTIFICATION: Final = ("/notification.json", "/told.json")


def notification(run_id: str) -> str:
    """What the engines are to hear of a run besides its changes."""
    return f"{CHANGES}{run_id}{_NOTIFICATION[0]}"


def notification_of_format_1(run_id: str) -> str:
    """The same, as releases of format 1 called it."""
    return f"{CHANGES}{run_id}{_NOTIFICATION[1]}"


def run_of_notification(key: str) -> str | None:
    """The run that a notification is of; None for other keys."""
    ending = next((ending for ending in _NOTIFICATION if key.endswith(ending)), None)
    return None if ending is None else key.removeprefix(CHANGES).removesuffix(ending)


def answer(run_id: str, engine: str) -> str:
    """What an engine answered to a run."""
    return f"{CHANGES}{run_id}/answers/{engine}.json"


def is_answer(key: str) -> bool:
    """Whether a key is that of an engine's answer."""
    return key.startswith(answer(run_of(key), "").removesuffix(".json"))


def ledger(engine: str) -> str:
    """What an engine has heard."""
    return f"{LEDGERS}{engine}.json"


def adopted(run_id: str, key: str) -> str:
    """The copy of an object of others that a run replaced."""
    return f"{ADOPTED}{run_id}/{key}"


def attempt(run_id: str) -> str:
    """What became of a run."""
    return f"{ATTEMPTS}{run_id}.json"


def conditions(store: str) -> str:
    """That a store was seen to keep to the conditions of writes."""
    return f"{_CONDITIONS}{hashlib.sha256(store.encode()).hexdigest()[:16]}.json"


PROBE: Final = "state/conditions/probe-"
"""Where a store is tried; what a killed run leaves there goes with what nothing refers to."""
PUBLIC_PROBE: Final = "sitemap-etl-probe-"
"""The same in the public store, where the state lies in another."""


# --- reports -----------------------------------------------------------------------------------------

METRICS: Final = "reports/metrics.prom"
INDEX: Final = "reports/index.html"
LATEST: Final = "reports/latest.html"
PAST_RUNS: Final = "reports/runs.json"
ASIDE: Final = ("rejected", "excluded", "duplicates")
"""The kinds of rows that a report lists beside the page."""


def summary(run_id: str) -> str:
    """A run's summary."""
    return f"{REPORTS}{run_id}/summary.json"


def report(run_id: str) -> str:
    """A run's report as a page."""
    return f"{REPORTS}{run_id}/report.html"


def splits(run_id: str) -> str:
    """What a run read."""
    return f"{REPORTS}{run_id}/splits.json"


def aside(run_id: str, kind: str) -> str:
    """The rows of one kind that a run did not list."""
    return f"{REPORTS}{run_id}/{kind}.parquet"


# --- a run's folder ----------------------------------------------------------------------------------


def run_folder(run_id: str) -> str:
    """Where a run stages, unless it is local and `work` is a bucket."""
    return f"{RUNS}{run_id}"


def place_of_run(address: str) -> tuple[str, str]:
    """The address of `<work>/<name>` and the id of the run, from that of the run's folder."""
    place, _, run_id = address.rpartition(f"/{RUNS}")
    return place, run_id


PLAN: Final = "plan.json"
PARTITION: Final = "partition"
SETTLE: Final = "settle"
ALIGN: Final = "align"
RENDER: Final = "render/"
EXTRACT: Final = "extract/"
TRANSFORM: Final = "transform/"
MERGE: Final = "merge"


def extract(unit: int) -> str:
    """The receipt of a unit of extract; with `.json`, as those below."""
    return f"{EXTRACT}{unit}"


def transform(unit: int) -> str:
    """The receipt of a unit of transform."""
    return f"{TRANSFORM}{unit}"


def again(unit: int) -> str:
    """The receipt of a unit of transform that was done once more."""
    return f"again/{unit}"


def merge(unit: int) -> str:
    """The receipt of a unit of merge."""
    return f"{MERGE}/{unit}"


def collect(unit: int) -> str:
    """The receipt of a unit of collect."""
    return f"collect/{unit}"


def render(unit: int) -> str:
    """The receipt of a unit of render."""
    return f"{RENDER}{unit}"


def receipt(name: str) -> str:
    """The key of the receipt of that name."""
    return f"{name}.json"
