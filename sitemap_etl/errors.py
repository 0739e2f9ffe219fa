"""All errors, as one tree. The modules that call libraries translate their errors into it.

    SitemapEtlError       by itself a defect of ours, as any other exception is               exit 70
    ├── ConfigError        the site file is wrong: all problems listed               exit 2
    ├── InvalidSource      the source lacks a column, or its data can't be read      exit 2
    ├── Refused            a gate said no: trying again can't help                    exit 1
    │   └── Denied         a database, a store or the file system said no             exit 1
    ├── Unavailable        the other side did not answer: trying again may help      exit 3
    ├── MachineError       it has too little memory, or killed the process           exit 3
    └── DamagedState       what the state holds can't be believed: restore it        exit 65

A message says what, which one, what was expected, what to do next. It never holds a secret.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import ClassVar, Literal, TypeAlias

RunStatus: TypeAlias = Literal["refused", "failed"]


class SitemapEtlError(Exception):
    """The root: catch this to catch everything this package raises on purpose.

    `exit_code` is what the command ends with; `kind` names the error in JSON; `status` is that of the run which
    the error ends. `run_id`: that run, if one had begun. `about`: what was being worked on, by name: `stage`,
    `section`, `split`.
    `ours`: whether what a run keeps itself failed: its state, its files, what it publishes; and no source.
    """

    exit_code: ClassVar[int] = 70  # EX_SOFTWARE of sysexits.h
    kind: ClassVar[str] = "defect"
    status: ClassVar[RunStatus] = "failed"
    run_id: str | None = None
    ours: bool = False
    about: Mapping[str, str | int] = MappingProxyType({})


class ConfigError(SitemapEtlError):
    """The site file or the call is wrong. `problems` has every mistake, one line each."""

    exit_code = 2
    kind = "config"

    def __init__(self, problems: str | Sequence[str]) -> None:
        self.problems: tuple[str, ...] = (problems,) if isinstance(problems, str) else tuple(problems)
        super().__init__("\n".join(self.problems))

    def __reduce__(self) -> tuple[type[ConfigError], tuple[tuple[str, ...]]]:
        return type(self), (self.problems,)


class InvalidSource(SitemapEtlError):
    """The source lacks a column, has it in an unreadable type, or contains broken data."""

    exit_code = 2
    kind = "source"


class Refused(SitemapEtlError):
    """A gate or another check of ours refused. A retry can't help."""

    exit_code = 1
    kind = "refused"
    status: ClassVar[RunStatus] = "refused"


class Denied(Refused):
    """A database, a store or the file system said no: a wrong password, a missing right, an unknown name.

    Nothing was judged, so the run failed. A retry can't help.
    """

    status = "failed"


class DamagedState(SitemapEtlError):
    """An object of the state is damaged and must be restored. A retry can't help (EX_DATAERR of sysexits.h)."""

    exit_code = 65
    kind = "state"
    ours = True


class Unavailable(SitemapEtlError):
    """A remote system did not respond. A retry can help; only this error is retried."""

    exit_code = 3
    kind = "unavailable"


class MachineError(SitemapEtlError):
    """The machine has too little memory, or the process of a run was killed. Another run can succeed."""

    exit_code = 3
    kind = "machine"


@contextmanager
def of_ours() -> Iterator[None]:
    """Mark errors that are raised in the block as errors of the run's own objects: `SitemapEtlError.ours`."""
    try:
        yield
    except SitemapEtlError as error:
        error.ours = True
        raise


def defect(error: BaseException) -> str:
    """Return the message for an exception outside this tree."""
    return f"{type(error).__name__}: {error}. This is a defect of sitemap_etl: please report it"


def nearest(word: str, known: Collection[str]) -> str | None:
    """Return the known word that was probably meant: it differs in case, in `-` for `_`, or in a few letters."""
    import difflib  # only a mistake needs it

    folded = {name.casefold().replace("-", "_"): name for name in known}
    plain = word.casefold().replace("-", "_")
    close = [plain] if plain in folded else difflib.get_close_matches(plain, list(folded), n=1)
    return folded[close[0]] if close and folded[close[0]] != word else None


def it_has(names: Sequence[str], wanted: str = "", then: str = "") -> str:
    """Return the sentence that lists columns, and asks for the one that was probably `wanted`. `then`: the next one."""
    close = nearest(wanted, names) if wanted else None
    listed = f"It has: {columns_in_words(names)}" + (f". Did you mean {close}?" if close else "")
    return f"{listed}{'' if close else '.'} {then}" if then else listed


def columns_in_words(names: Sequence[str]) -> str:
    """Return names of columns for a message. Those with a space at an end are quoted, because nobody would see it."""
    return ", ".join(name if name and name == name.strip() else f'"{name}"' for name in names) or "no columns"
