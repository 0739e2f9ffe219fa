"""What a run tells the engines, and what an engine says to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import pyarrow as pa


def _forgotten(_run_id: str) -> pa.Table | None:
    """The changes of an earlier run, where nobody kept them."""
    return None


@dataclass(frozen=True)
class Index:
    """A published index: its public address, and whether this run wrote it anew."""

    address: str
    changed: bool


@dataclass(frozen=True)
class Submission:
    """What a run tells the engines.

    `changes`: `frames.CHANGES` of this run alone, in any order. `listed`: URLs of the site now.
    `unheard`: earlier runs, oldest first, that no engine was asked to hear; `earlier` gives their changes.
    `quiet_because`: why engines that send URLs send nothing (first publish, re-base, lost state); `all` overrules it.
    `earlier`: gives the changes of an earlier run, None where they are gone. Those of a run in `Engine.pending` are
    asked for again, this run's too in later runs, and must then be what they were: a submission made up by hand
    (`ping --since`) takes a `run_id` of its own under which its changes are kept.
    """

    name: str
    site: str
    run_id: str
    indexes: tuple[Index, ...]
    changes: pa.Table
    listed: int
    retired: tuple[str, ...] = ()
    feeds: tuple[str, ...] = ()
    unheard: tuple[str, ...] = ()
    quiet_because: str | None = None
    all: bool = False
    earlier: Callable[[str], pa.Table | None] = field(default=_forgotten, repr=False)

    def changes_of(self, run_id: str) -> pa.Table | None:
        """The changes of this run or an earlier one, None where they are gone."""
        return self.changes if run_id == self.run_id else self.earlier(run_id)

    def told(self) -> list[str]:
        """The addresses of the indexes to speak of: the changed ones, or every one with `all`."""
        return [index.address for index in self.indexes if index.changed or self.all]

    def by_hand(self, engine: str, *options: str) -> str:
        """The command that sends this by hand."""
        return " ".join(["sitemap-etl ping", f"{self.name}.yaml", "--engine", engine, *options])


Status = Literal["accepted", "nothing", "skipped", "partial", "refused", "unavailable"]


@dataclass(frozen=True)
class Answer:
    """What became of a submission. It goes into manifest, report and JSON, and never holds a secret.

    | status | means |
    |---|---|
    | accepted | all that was to be sent now was taken; `details.left` may wait for a later run |
    | nothing | there was nothing to send |
    | skipped | nothing was sent on purpose; the message says why |
    | partial | some was taken, some refused |
    | refused | nothing was taken: trying again can't help |
    | unavailable | no usable answer: trying again may help |

    `sent`: URLs or addresses taken by this submission.
    """

    engine: str
    status: Status
    sent: int
    message: str
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def failed(self) -> bool:
        """Whether something was refused or unanswered: the run still counts as published, with exit code 3."""
        return self.status in ("partial", "refused", "unavailable")

    def to_json(self) -> dict[str, Any]:
        return asdict(self)
