"""Log context: the run, stage, section and split that the current thread works on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from typing import Final, TypeVar

_R = TypeVar("_R")

_ABOUT: Final[ContextVar[Mapping[str, str | int]]] = ContextVar("about")


def subject() -> Mapping[str, str | int]:
    """Return the log context of this thread: `run`, `stage`, `section` and `split` (number of the task), if they are
    set.
    """
    return _ABOUT.get({})


def note(**more: str | int) -> None:
    """Work on this from now on, in this thread and in those that begin with `here`."""
    _ABOUT.set({**subject(), **more})


@contextmanager
def about(**more: str | int) -> Iterator[None]:
    """Add to the log context within the block."""
    before = _ABOUT.set({**subject(), **more})
    try:
        yield
    finally:
        _ABOUT.reset(before)


@contextmanager
def afresh() -> Iterator[None]:
    """Start with an empty log context within the block."""
    before = _ABOUT.set({})
    try:
        yield
    finally:
        _ABOUT.reset(before)


def here(work: Callable[..., _R]) -> Callable[..., _R]:
    """Return `work` as a function that another thread can call once, with the log context of this thread."""
    context = copy_context()

    def done(*arguments: object, **options: object) -> _R:
        return context.run(work, *arguments, **options)

    return done
