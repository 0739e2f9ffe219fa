"""All keys under `<work>/<name>/`. No other module builds keys of the state.

    state/current.json                 current release; replaced by compare-and-swap only
    state/manifest-<run>.json          manifest of a release
    state/intent-<run>.json            keys that a publish is going to write and delete; kept while they are suspect
    state/snapshots/<hash>.arrow       rows as published
    state/robots/<hash>.txt            robots.txt of the site as last read
    state/mirrors/<section>/           mirror of a source that is read incrementally
    state/changes/<run>/               changes of a run that engines have not accepted yet
    state/ledger/<engine>.json         record of the submissions to an engine
    state/adopted/<run>/               copies of objects that `--adopt` replaced
    state/runs/<run>.json              record of a run, kept for a year
    state/conditions/<store>.json      result of the test of a store's conditional writes
    state/lease.json                   lease of the run in progress
    reports/<run>/                     report of a run
    reports/index.html, latest.html    page of all runs; page of the last run
    reports/runs.json                  short entries of the last runs
    reports/metrics.prom               metrics of the last run
    runs/<run>/                        staged files of a run

Keys in `runs/<run>/` are relative to that folder, because a local run stages elsewhere.
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
    """Return True if a text is the id of a run. No other text is accepted in a key."""
    return _RUN_ID.fullmatch(text) is not None


def run_of(key: str) -> str:
    """Return the run of a key of its changes, its reports or its folder. Return an empty text for other keys."""
    folder = next((folder for folder in (CHANGES, REPORTS, RUNS) if key.startswith(folder)), key)
    run_id, below, _ = key.removeprefix(folder).partition("/")
    return run_id if below else ""


def manifest(run_id: str) -> str:
    """Return the key of a run's manifest."""
    return f"{MANIFESTS}{run_id}.json"


def run_of_manifest(key: str) -> str:
    """Return the run of a manifest's key."""
    return key.removeprefix(MANIFESTS).removesuffix(".json")


def intent(run_id: str, number: int) -> str:
    """Return the key of the intent of a run's n-th claim. An earlier try of the run must not mistake a later claim for
    its own.
    """
    return f"{INTENTS}{run_id}{'' if number == 1 else f'-{number}'}.json"


def snapshot(digest: str) -> str:
    """Return the key of published rows. `digest`: SHA-256 of their bytes. The key has its first 40 digits."""
    return f"{SNAPSHOTS}{digest[:40]}.arrow"


def robots(digest: str) -> str:
    """Return the key of a robots.txt. `digest`: SHA-256 of its bytes. The key has its first 40 digits."""
    return f"{ROBOTS}{digest[:40]}.txt"


def mirror(section: str, run_id: str) -> str:
    """Return the key of a version of a section's mirror."""
    return f"{MIRRORS}{section}/{run_id}.json"


def mirror_file(section: str, run_id: str, name: str) -> str:
    """Return the key of a file of a section's mirror. `name`: different for each attempt."""
    return f"{MIRRORS}{section}/{run_id}/{name}.parquet"


def changes(run_id: str) -> str:
    """Return the key of the URLs that a run added, changed and removed."""
    return f"{CHANGES}{run_id}/changes.parquet"


_NOTIFICATION: Final = "/notification.json"


def notification(run_id: str) -> str:
    """Return the key of a run's notification."""
    return f"{CHANGES}{run_id}{_NOTIFICATION}"


def run_of_notification(key: str) -> str | None:
    """Return the run of a notification's key, or None for other keys."""
    return key.removeprefix(CHANGES).removesuffix(_NOTIFICATION) if key.endswith(_NOTIFICATION) else None


def answer(run_id: str, engine: str) -> str:
    """Return the key of an engine's answer to a run."""
    return f"{CHANGES}{run_id}/answers/{engine}.json"


def is_answer(key: str) -> bool:
    """Return True if the key is the key of an engine's answer."""
    return key.startswith(answer(run_of(key), "").removesuffix(".json"))


def ledger(engine: str) -> str:
    """Return the key of an engine's ledger."""
    return f"{LEDGERS}{engine}.json"


def adopted(run_id: str, key: str) -> str:
    """Return the key of the copy of an object that a run replaced with `--adopt`."""
    return f"{ADOPTED}{run_id}/{key}"


def attempt(run_id: str) -> str:
    """Return the key of a run's record."""
    return f"{ATTEMPTS}{run_id}.json"


def conditions(store: str) -> str:
    """Return the key of the test result for a store's conditional writes."""
    return f"{_CONDITIONS}{hashlib.sha256(store.encode()).hexdigest()[:16]}.json"


PROBE: Final = "state/conditions/probe-"
"""Beginning of the keys of test objects. A killed run leaves one; it is removed like all unreferenced state."""
PUBLIC_PROBE: Final = "sitemap-etl-probe-"
"""Beginning of the keys of test objects in a public store that differs from the state's."""


# --- reports -----------------------------------------------------------------------------------------

METRICS: Final = "reports/metrics.prom"
INDEX: Final = "reports/index.html"
LATEST: Final = "reports/latest.html"
PAST_RUNS: Final = "reports/runs.json"
ASIDE: Final = ("rejected", "excluded", "duplicates")
"""Kinds of rows that a report stores as tables."""


def summary(run_id: str) -> str:
    """Return the key of a run's summary."""
    return f"{REPORTS}{run_id}/summary.json"


def report(run_id: str) -> str:
    """Return the key of a run's report page."""
    return f"{REPORTS}{run_id}/report.html"


def splits(run_id: str) -> str:
    """Return the key of the splits that a run read."""
    return f"{REPORTS}{run_id}/splits.json"


def aside(run_id: str, kind: str) -> str:
    """Return the key of the rows of one kind that a run did not list."""
    return f"{REPORTS}{run_id}/{kind}.parquet"


# --- a run's folder ----------------------------------------------------------------------------------


def run_folder(run_id: str) -> str:
    """Return the key of the folder where a run stages. A local run with a bucket as `work` stages elsewhere."""
    return f"{RUNS}{run_id}"


def place_of_run(address: str) -> tuple[str, str]:
    """Return the address of `<work>/<name>` and the id of the run. `address`: address of the run's folder."""
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
    """Return the name of the task result of extract for a split."""
    return f"{EXTRACT}{unit}"


def transform(unit: int) -> str:
    """Return the name of the task result of transform for a split."""
    return f"{TRANSFORM}{unit}"


def again(unit: int) -> str:
    """Return the name of the task result of a transform task that had to run a second time."""
    return f"again/{unit}"


def merge(unit: int) -> str:
    """Return the name of the task result of merge."""
    return f"{MERGE}/{unit}"


def collect(unit: int) -> str:
    """Return the name of the task result of collect."""
    return f"collect/{unit}"


def render(unit: int) -> str:
    """Return the name of the task result of render."""
    return f"{RENDER}{unit}"


def receipt(name: str) -> str:
    """Return the key of the task result with this name."""
    return f"{name}.json"
