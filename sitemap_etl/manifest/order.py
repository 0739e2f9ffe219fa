"""The order of public writes in which no URL is ever unlisted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def receivers_first(changed: Iterable[str], gives: Mapping[str, frozenset[str]]) -> list[str]:
    """Changed files in the order to write them: those that give no row away, then receivers before givers.

    `gives`: key → keys of the files that now list URLs it listed. Files that exchange rows both ways
    have no such order; among them the order is by key, and a URL may be missing between two writes.
    """
    keys = sorted(changed)
    inside = {key: gives.get(key, frozenset()) & frozenset(keys) - {key} for key in keys}
    done: list[str] = []
    written: set[str] = set()
    waiting = dict(inside)
    while waiting:
        ready = [key for key, receivers in waiting.items() if receivers <= written]
        if not ready:
            ready = [min(waiting, key=lambda key: (len(waiting[key] - written), key))]
        for key in ready:
            done.append(key)
            written.add(key)
            del waiting[key]
    return done
