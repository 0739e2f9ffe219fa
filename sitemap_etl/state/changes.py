"""Store the changes of each run until every engine has accepted them: `state/changes/<run>/`."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sitemap_etl.frames import CHANGES
from sitemap_etl.state import layout
from sitemap_etl.state.codec import damaged
from sitemap_etl.state.records import Answered, Current, Notification
from sitemap_etl.state.store import State, put_document, read_document

_BATCH = 200_000


def packed(changes: Iterable[pa.Table]) -> pa.Buffer:
    """Return these CHANGES as one Parquet file. Memory holds one input table at a time besides the result."""
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, CHANGES, compression="zstd") as writer:
        for table in changes:
            writer.write_table(table, row_group_size=_BATCH)
    return sink.getvalue()


def put_changes(state: State, run_id: str, changes: pa.Buffer, notification: Notification) -> None:
    """Store the changes of a run, as `packed` returns them, and the notification for engines.

    Call it before the run is committed, so that a crash can't lose the changes.
    """
    state.storage.put(layout.changes(run_id), memoryview(changes))
    digest = hashlib.sha256(changes).hexdigest()
    put_document(state.storage, layout.notification(run_id), replace(notification, changes_sha256=digest))


def changes_of_run(state: State, run_id: str) -> pa.Table | None:
    """Return the changes of a run, or None if they no longer exist.

    Raise DamagedState if the stored bytes are not the ones that were written.
    """
    key = layout.changes(run_id)
    stored = state.storage.get(key)
    if stored is None:
        return None
    notification = notification_of(state, run_id)
    expected = notification.changes_sha256 if notification is not None else None
    if expected is not None and stored.sha256 != expected:
        raise damaged(state.storage.url_of(key), "its content is not what was written")
    return pq.read_table(pa.BufferReader(stored.data), schema=CHANGES)


def notification_of(state: State, run_id: str) -> Notification | None:
    """Return the notification that belongs to the changes of a run, or None if it no longer exists."""
    found = read_document(state.storage, layout.notification(run_id), Notification)
    return None if found is None else found[0]


def runs_with_changes(state: State) -> list[str]:
    """Return the runs with stored changes that were committed or that a person asked to send, in order.

    Changes are stored before the commit. So a run that died in between has changes too, until another run takes over.
    The order is the order of the commits: ids contain the time of a clock that can be wrong.
    """
    kept = _kept(state)
    committed = state.current().committed
    if committed is None:  # of a state that was repaired
        return sorted(kept)
    runs = [run for run in committed if run in kept]
    for run in sorted(kept.difference(committed)):
        notification = notification_of(state, run)
        if notification is not None and notification.by_hand:
            runs.insert(next((at for at, other in enumerate(runs) if other > run), len(runs)), run)
    return runs


def committed_with(state: State, current: Current, run_id: str) -> tuple[str, ...]:
    """Return the next value of `current.committed`: the runs with stored changes, and this run last."""
    kept = _kept(state) - {run_id}
    before = sorted(kept) if current.committed is None else [run for run in current.committed if run in kept]
    return (*before, run_id)


def _kept(state: State) -> set[str]:
    runs = {layout.run_of_notification(stat.key) for stat in state.storage.list(layout.CHANGES)}
    return {run for run in runs if run is not None}


def answer_of(state: State, run_id: str, engine: str) -> Answered | None:
    """Return the answer of an engine to a run, or None."""
    found = read_document(state.storage, layout.answer(run_id, engine), Answered)
    return None if found is None else found[0]


def put_answer(state: State, run_id: str, answer: Answered) -> None:
    """Store the answer of an engine. A later one replaces it."""
    put_document(state.storage, layout.answer(run_id, answer.engine), answer)


def together(tables: Sequence[pa.Table]) -> pa.Table:
    """Return the changes of several runs as one table. `tables`: oldest first; the last change of each loc wins."""
    if len(tables) == 1:
        return tables[0]
    table = pa.concat_tables(tables)
    table = table.append_column("at", pa.array(np.arange(table.num_rows)))
    latest = table.group_by("loc").aggregate([("at", "max")]).column("at_max")
    return table.take(latest).sort_by("at").drop_columns(["at"])
