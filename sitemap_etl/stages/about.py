"""What is being worked on, for whoever writes a log: the run, the stage, the section, the split."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from typing import Final, TypeVar

_R = TypeVar("_R")

_ABOUT: Final[ContextVar[Mapping[str, str | int]]] = ContextVar("about")


def subject() -> Mapping[str, str | int]:
    """What this thread works on: `run`, `stage`, `section`, `split` (the number of the unit), as far as is known."""
    return _ABOUT.get({})


def note(**more: str | int) -> None:
    """Work on this from now on, in this thread and in those that begin with `here`."""
    _ABOUT.set({**subject(), **more})


@contextmanager
def about(**more: str | int) -> Iterator[None]:
    """Work on this within the block."""
    before = _ABOUT.set({**subject(), **more})
    try:
        yield
    finally:
        _ABOUT.reset(before)


@contextmanager
def afresh() -> Iterator[None]:
    """Within the block nothing is worked on until something is noted."""
    before = _ABOUT.set({})
    try:
        yield
    finally:
        _ABOUT.reset(before)


def here(work: Callable[..., _R]) -> Callable[..., _R]:
    """`work` as another thread may do it once: on what this one works on."""
    context = copy_context()

    def done(*arguments: object) -> _R:
        return context.run(work, *arguments)

    return done
