"""What changed in each run, until every engine has heard of it: `state/changes/<run>/`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sitemap_etl.frames import CHANGES
from sitemap_etl.state.store import State, dumps

FOLDER = "state/changes"
_BATCH = 200_000


@dataclass(frozen=True)
class Told:
    """What a run has to say besides its changes. Addresses are public ones."""

    indexes: tuple[str, ...]
    changed_indexes: tuple[str, ...]
    retired_indexes: tuple[str, ...]
    feeds: tuple[str, ...]
    listed: int
    quiet_because: str | None
    by_hand: bool = False  # a person asked for it: no share of the site is too much
    covers: tuple[str, ...] = ()  # runs whose changes are among these

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Told:
        plain: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in data.items()}
        return cls(**plain)


def put_changes(state: State, run_id: str, changes: pa.Table, told: Told) -> None:
    """Keep what a run has to say. Written before the run is committed, so that it can't be lost after."""
    sink = pa.BufferOutputStream()
    pq.write_table(changes, sink, compression="zstd", row_group_size=_BATCH)
    state.storage.put(f"{FOLDER}/{run_id}/changes.parquet", memoryview(sink.getvalue()))
    state.storage.put(f"{FOLDER}/{run_id}/told.json", dumps(told.__dict__), content_type="application/json")


def changes_of_run(state: State, run_id: str) -> pa.Table | None:
    """The changes of a run; None where they are gone."""
    stored = state.storage.get(f"{FOLDER}/{run_id}/changes.parquet")
    return None if stored is None else pq.read_table(pa.BufferReader(stored.data), schema=CHANGES)


def told_by(state: State, run_id: str) -> Told | None:
    """What a run had to say besides its changes; None where it is gone."""
    stored = state.storage.get(f"{FOLDER}/{run_id}/told.json")
    return None if stored is None else Told.from_json(json.loads(stored.data))


def runs_with_changes(state: State) -> list[str]:
    """The runs whose changes are kept, oldest first."""
    ending = "/told.json"
    return sorted(
        stat.key.removeprefix(f"{FOLDER}/").removesuffix(ending)
        for stat in state.storage.list(f"{FOLDER}/")
        if stat.key.endswith(ending)
    )


def answer_of(state: State, run_id: str, engine: str) -> dict[str, Any] | None:
    """What an engine answered to a run, or None."""
    stored = state.storage.get(f"{FOLDER}/{run_id}/answers/{engine}.json")
    return None if stored is None else json.loads(stored.data)


def put_answer(state: State, run_id: str, engine: str, answer: dict[str, Any]) -> None:
    """Keep an engine's answer; a later one replaces it."""
    state.storage.put(f"{FOLDER}/{run_id}/answers/{engine}.json", dumps(answer), content_type="application/json")


def together(tables: Sequence[pa.Table]) -> pa.Table:
    """The changes of several runs, oldest first, as one: of a loc that changed twice the last kind stands."""
    if len(tables) == 1:
        return tables[0]
    table = pa.concat_tables(tables)
    table = table.append_column("at", pa.array(np.arange(table.num_rows)))
    latest = table.group_by("loc").aggregate([("at", "max")]).column("at_max")
    return table.take(latest).sort_by("at").drop_columns(["at"])
