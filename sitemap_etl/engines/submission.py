"""Submission of a run to the engines, and an engine's answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, field
from typing import Any, Literal

import pyarrow as pa

from sitemap_etl.advice import SITE_FILE, for_file
from sitemap_etl.frozen import Frozen


def _forgotten(_run_id: str) -> pa.Table | None:
    """Return None: no changes of earlier runs exist. The default of `earlier`."""
    return None


class Index(Frozen):
    """Published index. `changed`: True if this run wrote it."""

    address: str
    changed: bool


class Submission(Frozen):
    """Changes that a run sends to the engines.

    `changes`: `frames.CHANGES` of this run alone, in any order. `listed`: number of URLs of the site now.
    `pending_runs`: earlier runs, oldest first, that no engine was notified of.
    `earlier`: returns the changes of an earlier run, or None if they no longer exist. The changes of a run in
    `Engine.pending` are requested again in later runs and must not change until then. So `ping --since` stores its
    changes under its own `run_id`.
    `quiet_because`: reason why engines that send URLs send nothing (first publish, fingerprints reset, lost state).
    `all` overrides it.
    `site_file`: path of the site file, for messages. `before`: the run before these changes, for messages. None if
    `ping --since` can't find it.
    """

    name: str
    site: str
    run_id: str
    indexes: tuple[Index, ...]
    changes: pa.Table
    listed: int
    retired: tuple[str, ...] = ()
    feeds: tuple[str, ...] = ()
    pending_runs: tuple[str, ...] = ()
    quiet_because: str | None = None
    all: bool = False
    site_file: str = ""
    before: str | None = None
    earlier: Callable[[str], pa.Table | None] = field(default=_forgotten, repr=False)

    def changes_of(self, run_id: str) -> pa.Table | None:
        """Return the changes of this run or an earlier one, or None if they no longer exist."""
        return self.changes if run_id == self.run_id else self.earlier(run_id)

    def addresses(self) -> list[str]:
        """Return the addresses of the indexes to send: the changed ones, or all with `all`."""
        return [index.address for index in self.indexes if index.changed or self.all]

    def by_hand(self, engine: str, *options: str) -> str:
        """Return the command that sends something now: pending changes, or those of these options."""
        return for_file(" ".join([f"sitemap-etl ping {SITE_FILE} --engine {engine}", *options]), self.site_file)


Status = Literal["accepted", "nothing", "skipped", "partial", "refused", "unavailable"]


class Answer(Frozen):
    """Outcome of a submission. Manifest, report and JSON contain it. It never contains a secret.

    | status | means |
    |---|---|
    | accepted | everything sent now was accepted; `details.left` may be pending for a later run |
    | nothing | there was nothing to send |
    | skipped | nothing was sent on purpose, or the engine is not ready; the message says why |
    | partial | some was accepted, some refused |
    | refused | nothing was accepted, and a retry can't help |
    | unavailable | there was no usable response; a retry may help |

    `sent`: number of URLs or addresses accepted in this submission.
    """

    engine: str
    status: Status
    sent: int
    message: str
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def failed(self) -> bool:
        """True if something was refused or got no response. The run still counts as published, with exit code 3."""
        return self.status in ("partial", "refused", "unavailable")

    def to_json(self) -> dict[str, Any]:
        return asdict(self)
