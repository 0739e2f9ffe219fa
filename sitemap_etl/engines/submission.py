"""What a run sends to the engines, and an engine's answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, field
from typing import Any, Literal

import pyarrow as pa

from sitemap_etl.advice import SITE_FILE, for_file
from sitemap_etl.frozen import Frozen


def _forgotten(_run_id: str) -> pa.Table | None:
    """The default of `earlier`: no changes of earlier runs exist."""
    return None


class Index(Frozen):
    """A published index: its public address, and whether this run wrote it anew."""

    address: str
    changed: bool


class Submission(Frozen):
    """What a run sends to the engines.

    `changes`: `frames.CHANGES` of this run alone, in any order. `listed`: URLs of the site now.
    `pending_runs`: earlier runs, oldest first, of which no engine was notified; `earlier` returns their changes.
    `quiet_because`: why engines that send URLs send nothing (first publish, fingerprints reset, lost state); `all`
    overrides it. For messages: `site_file`, where the site was read from, and `before`, the run after which all of this
    changed, None where `ping --since` does not know it. `earlier`: returns the changes of an earlier run, None
    if they no longer exist. Those of a run in `Engine.pending` are requested again in later runs and must not
    change meanwhile: `ping --since` therefore stores its changes under a `run_id` of its own.
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
        """The changes of this run or an earlier one, None if they no longer exist."""
        return self.changes if run_id == self.run_id else self.earlier(run_id)

    def addresses(self) -> list[str]:
        """The addresses of the indexes to send: the changed ones, or all with `all`."""
        return [index.address for index in self.indexes if index.changed or self.all]

    def by_hand(self, engine: str, *options: str) -> str:
        """The command that sends something now: what is pending, or what these options say."""
        return for_file(" ".join([f"sitemap-etl ping {SITE_FILE} --engine {engine}", *options]), self.site_file)


Status = Literal["accepted", "nothing", "skipped", "partial", "refused", "unavailable"]


class Answer(Frozen):
    """The outcome of a submission. It goes into manifest, report and JSON, and never contains a secret.

    | status | means |
    |---|---|
    | accepted | everything sent now was accepted; `details.left` may be pending for a later run |
    | nothing | there was nothing to send |
    | skipped | nothing was sent on purpose; the message says why |
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
        """Whether something was refused or got no response; the run still counts as published, with exit code 3."""
        return self.status in ("partial", "refused", "unavailable")

    def to_json(self) -> dict[str, Any]:
        return asdict(self)
