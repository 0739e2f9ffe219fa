"""The protocol of publishing as a small state machine, so that every order of events can be tried.

A store has files (sets of rows) and an index (a set of names). Runs follow each other. Each may die at any of its
writes, which may have happened, or arrive at any later time. Any write may be sent twice, and the second one may arrive
at any time. The index of a crawler must never name a missing file, and a row that every run lists must never be
missing.

The rules of `publish` are switches here: the tests remove one and look for the defect that it prevents.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

Rows: TypeAlias = frozenset[str]
Stored: TypeAlias = tuple[Rows, str]
"""Content, and its mark: both together are what an ETag stands for."""
Objects: TypeAlias = tuple[tuple[str, Stored], ...]
INDEX = "index"
NEW = "new"
AS_IT_IS: Stored = (frozenset(), "as it is")
"""A file of a set whose name is the section's next number."""


@dataclass(frozen=True)
class Rules:
    """The rules that a run follows.

    `again`: first, it puts the keys of an interrupted publish again unchanged but with a fence, and fences all that
    it writes there. `former`: content that was under a key lately, or was to be deleted, is written with a fence.
    `numbers`: those of interrupted publishes are not reused.
    """

    again: bool = True
    former: bool = True
    numbers: bool = True


@dataclass(frozen=True)
class Current:
    """What a run reads at its start, and swaps. `pending`: keys of the publish under way, and its next number."""

    manifest: Objects
    pending: tuple[str, frozenset[str], int] | None = None
    retired: Objects = ()
    former: frozenset[tuple[str, Stored | None]] = frozenset()
    suspect: frozenset[str] = frozenset()
    number: int = 3
    serial: int = 0


@dataclass(frozen=True)
class Request:
    """A write on its way: of an object (None: a delete), or of `current` (key is empty)."""

    key: str
    stored: Stored | None = None
    expect: Stored | None = None  # None: nothing is there
    current: Current | None = None
    held: Current | None = None


@dataclass(frozen=True)
class Live:
    """The running run. `todo`: its next writes; `after`: what it swaps in then."""

    held: Current
    claimed: bool = False
    secured: bool = False
    planned: bool = False
    again: frozenset[str] = frozenset()
    seen: Objects = ()
    todo: tuple[tuple[str, Stored | None], ...] = ()
    manifest: Objects = ()
    number: int = 0
    number_lost: int = 0
    deleting: bool = False


@dataclass(frozen=True)
class World:
    """The whole state. `night`: number of the current run, or of the next one."""

    objects: Objects
    current: Current
    night: int = 0
    live: Live | None = None
    late: frozenset[Request] = frozenset()
    deaths: int = 0
    twice: int = 0
    problem: str = ""


@dataclass(frozen=True)
class Night:
    """Return what a run's source makes: name → rows. `delete`: retired files have expired."""

    files: Mapping[str, Rows]
    delete: bool = False


@dataclass
class Explorer:
    """Tries every order of events. `deaths`, `twice`: the largest number of each.

    `exchanged`: rows that two files exchange. While a publish is pending, they can be in neither file.
    """

    start: Mapping[str, Rows]
    nights: tuple[Night, ...]
    rules: Rules = field(default_factory=Rules)
    deaths: int = 1
    twice: int = 0
    retired: Mapping[str, Rows] = field(default_factory=dict)
    exchanged: Rows = frozenset()
    states: int = 0

    def explore(self) -> str | None:
        """Return the first violation with the events that lead to it, or None if there is none. `states` counts."""
        files = {**self.start, INDEX: frozenset(self.start)}
        manifest = _pack({key: (rows, "") for key, rows in files.items()})
        retired = _pack({key: (rows, "") for key, rows in self.retired.items()})
        first = World(_pack(dict(manifest + retired)), Current(manifest, retired=retired))
        came: dict[World, tuple[World, str] | None] = {first: None}
        waiting = [first]
        while waiting:
            world = waiting.pop()
            for what, then in self._events(world):
                if then in came:
                    continue
                came[then] = (world, what)
                waiting.append(then)
                problem = then.problem or self._problem(then)
                if problem:
                    self.states = len(came)
                    return f"{problem}: {_path(came, then)}"
        self.states = len(came)
        return None

    # --- what must hold ---

    def _problem(self, world: World) -> str:
        objects = dict(world.objects)
        index = objects[INDEX][0]
        missing = sorted(key for key in index if key not in objects)
        if missing:
            return f"the index names {missing}"
        found = frozenset(row for key in index for row in objects[key][0])
        always = _rows(self.start)
        for night in self.nights:
            always &= _rows(night.files)
        if world.current.pending is not None:
            always -= self.exchanged
        if always - found:
            return f"{sorted(always - found)} not listed"
        if world.live is None and world.current.pending is None:
            said = frozenset(row for key, (rows, _) in world.current.manifest if key != INDEX for row in rows)
            if said != found:
                return f"{sorted(found)} listed at rest, {sorted(said)} published"
        return ""

    # --- what may happen ---

    def _events(self, world: World) -> Iterator[tuple[str, World]]:
        for request in world.late:
            rest = replace(world, late=world.late - {request})
            yield f"late {_name(request)}", _arrive(rest, request)[0]
        if world.live is not None:
            yield from self._step(world, world.live)
        elif world.night < len(self.nights):
            yield f"night {world.night + 1}", replace(world, live=Live(world.current))

    def _step(self, world: World, live: Live) -> Iterator[tuple[str, World]]:
        night = self.nights[world.night]
        if live.claimed and not live.secured:
            retired = dict(live.held.retired)
            keys = [key for key, _ in world.objects if key in live.again and key not in retired and self.rules.again]
            todo = tuple((key, AS_IT_IS) for key in keys)
            yield "takes stock", replace(world, live=replace(live, secured=True, seen=world.objects, todo=todo))
            return
        if live.claimed and not live.planned and not live.todo:
            yield "looks", replace(world, live=self._plan(world, live, night))
            return
        if not live.claimed:
            request, then = self._claim(live, night, world.night)
        elif live.todo:
            request, then = self._next(live)
        else:
            request, then = self._commit(live, night)
        yield from self._send(world, request, then)

    def _send(self, world: World, request: Request, then: Live | None) -> Iterator[tuple[str, World]]:
        """Yield the outcomes of a write: success, death before or after it, or a repetition."""
        name = _name(request)
        arrived, done = _arrive(world, request)
        over = replace(world, live=None, night=world.night + 1)
        if done:
            ended = replace(arrived, live=then, night=world.night + (then is None))
            yield name, ended
            if world.twice < self.twice and request.current is None:
                yield f"{name}, twice", replace(ended, late=world.late | {request}, twice=world.twice + 1)
        elif request.current is not None:
            yield f"{name}: overtaken", over
        else:
            assert world.live is not None
            if request.key in world.live.again or request.key in world.live.held.suspect:
                seen = dict(world.live.seen)
                there = dict(world.objects).get(request.key)
                seen.pop(request.key, None)
                seen |= {} if there is None else {request.key: there}
                yield f"{name}: looks again", replace(world, live=replace(world.live, seen=_pack(seen)))
            else:
                yield f"{name}: refused", replace(over, problem=f"{name} was refused")
        if world.deaths < self.deaths and world.night + 1 < len(self.nights):
            dead = replace(over, deaths=world.deaths + 1)
            yield f"dies before {name}", replace(dead, late=world.late | {request})
            if done:
                yield f"dies after {name}", replace(dead, objects=arrived.objects, current=arrived.current)

    # --- a run ---

    def _claim(self, live: Live, night: Night, number: int) -> tuple[Request, Live]:
        held = live.held
        again = frozenset() if held.pending is None else held.pending[1]
        lost = held.number if held.pending is None else held.pending[2]
        own = {INDEX, *night.files, *again, *(key for key, _ in held.retired)} - {NEW}
        new = held.number + (NEW in night.files)
        own |= {_file(held.number)} if NEW in night.files else set()
        pending = (f"run{number}", frozenset(own), max(new, lost))
        now = replace(held, pending=pending, suspect=held.suspect | again, serial=held.serial + 1)
        return Request("", current=now, held=held), replace(live, held=now, claimed=True, again=again, number_lost=lost)

    def _plan(self, world: World, live: Live, night: Night) -> Live:
        """Compare with the store, and put the writes in order."""
        held, rules, mark = live.held, self.rules, f"run{world.night}"
        seen = dict(world.objects)
        known = dict(held.manifest)
        number = held.number
        files = dict(night.files)
        if NEW in files:
            files[_file(number)] = files.pop(NEW)
            number += 1
        desired = {**files, INDEX: frozenset(files)}
        manifest: dict[str, Stored] = {}
        writes: dict[str, Stored] = {}
        for key, rows in desired.items():
            trusted = key not in live.again and key not in held.suspect
            there = known.get(key) if trusted else seen.get(key)
            secured = key in live.again and (not rules.again or key not in dict(held.retired))
            watched = key in held.suspect and key not in live.again
            if there is not None and there[0] == rows and (trusted or secured or (watched and there == known.get(key))):
                manifest[key] = there
                continue
            comes_back = (key, (rows, "")) in held.former or (key, None) in held.former
            comes_back |= key in dict(held.retired) or (key in known and known[key][0] == rows)
            fenced = (rules.again and key in live.again | held.suspect) or (rules.former and comes_back)
            manifest[key] = writes[key] = (rows, mark if fenced else "")
            unmanaged = key in seen and seen[key] not in (known.get(key), dict(held.retired).get(key))
            if unmanaged and key not in live.again | held.suspect:
                return replace(live, planned=True, todo=((f"unmanaged {key}", None),))
        todo = tuple(self._ordered(writes, files, seen, mark))
        number = max(number, live.number_lost)
        return replace(live, planned=True, seen=_pack(seen), todo=todo, manifest=_pack(manifest), number=number)

    def _ordered(
        self,
        writes: dict[str, Stored],
        files: Mapping[str, Rows],
        seen: Mapping[str, Stored],
        mark: str,
    ) -> list[tuple[str, Stored | None]]:
        # What lies there and is in no index is written before one names it, as a file that is not there.
        changed = sorted(key for key in writes if key in seen and key in seen[INDEX][0])
        new = [key for key in writes if key not in changed]
        takes = {
            giver: {
                other for other in changed if other != giver and not seen[giver][0].isdisjoint(files.get(other, ()))
            }
            for giver in changed
        }
        order: list[str] = []
        while len(order) < len(changed):
            ready = [key for key in changed if key not in order and takes[key] <= set(order)]
            if not ready:
                ready = [key for key in changed if key not in order][:1]
            order += ready
        todo: list[tuple[str, Stored | None]] = [(key, writes[key]) for key in new if key != INDEX]
        both = frozenset({key for key in seen[INDEX][0] if key in seen} | set(files))
        final = writes.get(INDEX)
        if order and both != seen[INDEX][0]:
            if final is not None and final[0] == both:
                todo.append((INDEX, final))
                final = None
            else:
                todo.append((INDEX, (both, f"{mark}-both")))
                final = final or (frozenset(files), f"{mark}-again")
        todo += [(key, writes[key]) for key in order]
        return todo + ([] if final is None else [(INDEX, final)])

    def _next(self, live: Live) -> tuple[Request, Live]:
        (key, stored), rest = live.todo[0], live.todo[1:]
        seen = dict(live.seen)
        if stored == AS_IT_IS:
            if key not in seen:
                return Request(key, None, None), replace(live, todo=rest)  # it went; a delete of nothing does nothing
            stored = (seen[key][0], f"{live.held.pending[0] if live.held.pending else ''}-taken")
        request = Request(key, stored, seen.get(key))
        if stored is None:
            seen.pop(key, None)
            gone = dict(live.held.retired).get(key)
            return replace(request, expect=gone), replace(live, todo=rest, seen=_pack(seen))
        manifest = live.manifest
        if key == INDEX and not any(other == INDEX for other, _ in rest):
            manifest = _pack({**dict(manifest), INDEX: stored})
        return request, replace(live, todo=rest, seen=_pack({**seen, key: stored}), manifest=manifest)

    def _commit(self, live: Live, night: Night) -> tuple[Request, Live | None]:
        held = live.held
        if live.deleting:
            gone = frozenset((key, None) for key, _ in held.retired)
            now = replace(held, pending=None, retired=(), former=held.former | gone, serial=held.serial + 1)
            return Request("", current=now, held=held), None
        manifest, known = dict(live.manifest), dict(held.manifest)
        left = {key: stored for key, stored in known.items() if key not in manifest}
        left |= {
            key: stored
            for key, stored in live.seen
            if key not in manifest and (key in live.again | held.suspect or key not in known)
        }
        retired = {key: stored for key, stored in held.retired if key not in manifest} | left
        was = frozenset((key, stored) for key, stored in known.items() if manifest.get(key) != stored)
        now = Current(
            live.manifest,
            retired=_pack(retired),
            former=held.former | was,
            suspect=held.suspect if self.rules.again else frozenset(),
            number=max(live.number, live.number_lost) if self.rules.numbers else live.number,
            serial=held.serial + 1,
        )
        due = {key for key, _ in held.retired} & retired.keys() if night.delete else set()
        if not due:
            return Request("", current=now, held=held), None
        # A claim of its own for the deletes, swapped in with the commit: what is in between makes no difference here.
        now = replace(now, retired=_pack({key: retired[key] for key in due}), pending=("deletes", frozenset(due), 0))
        then = replace(live, held=now, todo=tuple((key, None) for key in sorted(due)), deleting=True)
        return Request("", current=now, held=held), then


def _arrive(world: World, request: Request) -> tuple[World, bool]:
    """Apply a write to the store; return the result, and whether its condition was met."""
    if request.current is not None:
        return (replace(world, current=request.current), True) if world.current == request.held else (world, False)
    objects = dict(world.objects)
    if objects.get(request.key) != request.expect:
        return world, False
    if request.stored is None:
        objects.pop(request.key, None)
    else:
        objects[request.key] = request.stored
    return replace(world, objects=_pack(objects)), True


def _pack(objects: Mapping[str, Stored]) -> Objects:
    return tuple(sorted(objects.items(), key=lambda item: item[0]))


def _rows(files: Mapping[str, Rows]) -> Rows:
    return frozenset(row for rows in files.values() for row in rows)


def _file(number: int) -> str:
    return f"f{number}"


def _name(request: Request) -> str:
    if request.current is not None:
        return "claim" if request.current.pending is not None else "commit"
    if request.stored is None:
        return f"delete {request.key}"
    return f"put {request.key}={''.join(sorted(request.stored[0]))}{request.stored[1] and '*'}"


def _path(came: Mapping[World, tuple[World, str] | None], world: World) -> str:
    found = []
    step = came[world]
    while step is not None:
        found.append(step[1])
        step = came[step[0]]
    return ", ".join(reversed(found))
