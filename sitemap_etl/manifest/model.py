"""The record of what is published: written last, it is what a publish commits.

A manifest is JSON, format 1. Every file of the public set has its place here: what is in it, by which
name, since when its bytes are as they are. The next run compares against it and against the snapshots
it names; a rollback renders an older one anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

FORMAT: Final = 1


@dataclass(frozen=True)
class File:
    """One published object: `bytes` and `sha256` of what a reader sees inflated, `stored*` of the object."""

    key: str
    bytes: int
    sha256: str
    stored: int
    stored_sha256: str
    etag: str | None
    lastmod: str  # when the inflated bytes last changed, YYYY-MM-DDThh:mm:ssZ


@dataclass(frozen=True)
class Entry:
    """One shard: the locs from `low` up to the next shard's, in `file` (and `text`)."""

    section: str
    number: int
    low: str
    first: str
    last: str
    rows: int
    body: int  # bytes of its entries, without the wrapper
    index: int  # 1 is sitemap.xml, 2 is sitemap-2.xml
    file: File
    snapshot: str
    since: int | None = None  # newest `since` of its rows, epoch seconds
    text: File | None = None


@dataclass(frozen=True)
class Index:
    """One published sitemap index."""

    number: int
    file: File


@dataclass(frozen=True)
class Retired:
    """A file of ours that is no longer listed and is deleted after the grace: only with this ETag."""

    key: str
    etag: str | None
    at: int  # epoch seconds


@dataclass(frozen=True)
class SectionState:
    """What a section carries from run to run."""

    next_number: int = 1
    rule: str | None = None  # id of its fingerprint's definition
    listed: int = 0
    view: bool = False
    departed: str | None = None  # snapshot of rows that left lately
    top: str | None = None  # snapshot of the rows its feeds show
    read_at: str | None = None  # `now` of the last run that read it


@dataclass(frozen=True)
class Manifest:
    """A published set."""

    name: str
    site: str
    run_id: str
    now: str
    to: str = ""  # where the files are
    base: str | None = None
    sections: Mapping[str, SectionState] = field(default_factory=dict)
    entries: tuple[Entry, ...] = ()
    indexes: tuple[Index, ...] = ()
    extras: tuple[File, ...] = ()  # robots.txt, key files, feeds: published, but in no index
    retired: tuple[Retired, ...] = ()
    counts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    history: tuple[Mapping[str, Any], ...] = ()  # {at, site, sections} of the last seven days
    gates: tuple[Mapping[str, Any], ...] = ()
    forced: tuple[str, ...] = ()
    reason: str | None = None
    rolled_back_to: str | None = None
    indexing: Mapping[str, Any] = field(default_factory=dict)  # what the engines answered, added after the commit

    def of(self, section: str) -> list[Entry]:
        """The section's shards in the order of their ranges."""
        return [entry for entry in self.entries if entry.section == section]

    def files(self) -> Iterator[File]:
        """Every public object of the set."""
        for entry in self.entries:
            yield entry.file
            if entry.text is not None:
                yield entry.text
        for index in self.indexes:
            yield index.file
        yield from self.extras

    @property
    def key(self) -> str:
        return manifest_key(self.run_id)

    @property
    def listed(self) -> int:
        return sum(state.listed for state in self.sections.values() if not state.view)

    def to_json(self) -> dict[str, Any]:
        return {"format": FORMAT, **asdict(self)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Manifest:
        """Read a manifest. Raises ValueError for a format this release does not know."""
        if data.get("format") != FORMAT:
            raise ValueError(f"manifest format {data.get('format')!r}; this release reads {FORMAT}")
        plain = {key: value for key, value in data.items() if key != "format"}
        plain["sections"] = {name: SectionState(**state) for name, state in plain["sections"].items()}
        plain["entries"] = tuple(_entry(entry) for entry in plain["entries"])
        plain["indexes"] = tuple(Index(index["number"], File(**index["file"])) for index in plain["indexes"])
        plain["extras"] = tuple(File(**extra) for extra in plain["extras"])
        plain["retired"] = tuple(Retired(**retired) for retired in plain["retired"])
        for name in ("history", "gates", "forced"):
            plain[name] = tuple(plain[name])
        return cls(**plain)


def _entry(data: Mapping[str, Any]) -> Entry:
    text = data.get("text")
    return Entry(**{**data, "file": File(**data["file"]), "text": None if text is None else File(**text)})


def manifest_key(run_id: str) -> str:
    """Where a run's manifest lies in the state."""
    return f"state/manifest-{run_id}.json"


def same_set(one: Manifest, other: Manifest) -> bool:
    """Whether two manifests publish the same inflated bytes under the same names."""
    return {f.key: f.sha256 for f in one.files()} == {f.key: f.sha256 for f in other.files()}
