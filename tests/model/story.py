"""The runs of one site, each compared with the model."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from tests.model.edits import NAMES, NOT_YET, OPEN, RULES, URLS, Edits
from tests.model.hearing import Hearing
from tests.model.model import Model
from tests.model.records import Night, Set
from tests.model.rules import changed, is_view
from tests.model.settle import INDEX, Seen, Settling
from tests.model.settle import ROBOTS as ROBOTS_TXT
from tests.model.world import KEY, Done, Spec, World, stamp
from tests.support.sites import content

TALLY: Counter[str] = Counter()
"""What the nights of this process were, and what they went through."""


@dataclass(frozen=True)
class Asked:
    """A run and the prediction of the model. `kept`: URLs that are listed at every moment of it.

    `without`: the prediction if these sections could not be read.
    """

    night: Night
    without: Callable[[set[str]], Night]
    columns: dict[str, set[str]]
    options: dict[str, Any]
    forced: tuple[str, ...]
    kept: frozenset[str]
    ping: bool


class Story(Edits):
    """A site, its model, and runs; the result of every run is compared with the model."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.model = Model(NOT_YET)
        self.hearing = Hearing()
        self.seen = Seen({}, {})
        self.staged: list[tuple[str, Night, Set | None, dict[str, set[str]]]] = []
        self.vanished = False  # a file that waits to be deleted is gone already: one run more has to see that
        self.broken = False  # a run died, and none has come to its end since
        self.refused: tuple[str, ...] = ()
        self.count = 0
        self.doing = ""

    def begin(self, dice: random.Random) -> None:
        """Return a site after its first run."""
        self.lay_out(dice)
        self._night()

    def lay_out(self, dice: random.Random) -> None:
        """Return a site of two or three sections with some dozens of pages."""
        keys = self.world.site.keys
        gates = dice.choice([{}, OPEN, OPEN])
        visited = dice.choice([{}, {"pages": {"sample": 1_000, "max_bad": dice.choice([0.05, 0.12, 0.5])}}])
        keys["gates"] = {**gates, **visited}
        keys["urls"] = dict(dice.choice(URLS))
        keys["keep"] = 5
        if dice.random() < 0.5:
            keys["recent"] = "3d"
        if dice.random() < 0.5:
            engine = {
                "key": "${INDEXNOW_KEY}",
                "endpoint": self.world.endpoint,
                "patience": 0,
                "max_share": 1,
            }
            keys["ping"] = {"indexnow": engine}
        for name in NAMES[: dice.randint(2, 3)]:
            self._new(dice, name)

    # --- runs ---

    def night(self, gap: timedelta, full: bool, ping: bool) -> None:
        self._pass(gap)
        self._night(full=full, ping=ping)

    def quiet_night(self, gap: timedelta) -> None:
        """Run twice: what the second run writes, the first one missed."""
        self._pass(gap)
        self._night()
        self._pass(timedelta(hours=1))
        self._night()

    def noticed(
        self,
        gap: timedelta,
        change: Callable[[Story, random.Random, int, set[int]], object],
        at: int,
        numbers: set[int],
        dice: random.Random,
    ) -> None:
        """Change one thing after an unchanged run; what the next run misses, one that renders everything finds."""
        self.quiet_night(gap)
        change(self, dice, at, numbers)
        for full in (False, True):
            self._pass(timedelta(hours=1))
            self._night(full=full)

    def one_section(self, gap: timedelta, at: int) -> None:
        if self._turned():
            return
        self._pass(gap)
        edited = self.edited
        self._night(only=(self._spec(at).name,))
        self.edited = edited

    def _turned(self) -> list[Spec]:
        """Return sections that became views, or stopped being one, since they were published; they are read first."""
        base = self.model.current.sections if self.model.current else {}
        specs = self.world.specs.values()
        return [spec for spec in specs if spec.name in base and base[spec.name].view != bool(spec.keys.get("view"))]

    def dry(self, gap: timedelta) -> None:
        self._pass(gap)
        self._night(dry_run=True)

    def forced(self, gap: timedelta) -> None:
        self._pass(gap)
        self._night(force=self.refused)

    def publish_staged(self, gap: timedelta, at: int, force: bool) -> None:
        """Publish a dry or refused run exactly as it was shown."""
        self._pass(gap)
        run_id, night, base, columns = self.staged.pop(at % len(self.staged))
        refusing = tuple(name for name, answer in night.gates.items() if answer is not False)
        self._begin(f"publish {run_id} of {stamp(night.now)}")
        gates = refusing if force else ()
        done = self.world.publish(run_id, force=gates)
        if base is not self.model.current and self._status(done) != "refused":
            self._expect_error(done, "another set was published since")
        elif base is not self.model.current or (self.world.now - night.now > timedelta(days=13) and done.error):
            self._unchanged()
        elif night.refused is not False and not force and (night.refused or self._status(done) == "refused"):
            self._refuses(done)
        else:
            self._settle(night, done, columns, forced=gates, ping=True)

    def killed(self, gap: timedelta, writes: int, since: str) -> None:
        """Kill a run at a write; the lease it held ends after twenty minutes."""
        self._pass(gap)
        self._night(kill=(writes, since))
        self._pass(timedelta(minutes=21))

    def lost(self, gap: timedelta, at: int) -> None:
        """Delete a published file; a run that looks at every object restores it."""
        self._pass(gap)
        key = sorted(self.seen.entries)[at % len(self.seen.entries)]
        public = self.world.public
        data, broken = public.objects()[key], self.broken
        public.remove(key)
        self.world.lost.add(key)
        for each in (self.seen.objects, self.seen.content):
            del each[key]
        self._tally("a file lost")
        self.broken = self.edited = True
        self._night(full=True)
        self.world.lost.clear()
        self.vanished = self.vanished or key not in self.seen.index
        if key not in public.objects() and key in self.seen.index:  # the run was refused
            public.put(key, data)
            self.broken = broken
            self.seen = self.world.look()

    def rollback(self, gap: timedelta, at: int, before: bool) -> None:
        self._pass(gap)
        # Of the current set, or of the one it is a rollback to, nothing would be done.
        history = self.world.history()
        there = {each[key] for each in history if each["current"] for key in ("run_id", "rolled_back_to")}
        kept = [each["run_id"] for each in history if each["run_id"] not in there]
        if not kept:
            return
        by_id = {each.run_id: each for each in self.model.sets}
        old = by_id[kept[0] if before else kept[at % len(kept)]]
        self._begin(f"roll back to {old.run_id}")
        done = self.world.roll_back(old.run_id)
        self._restored(old, done)

    # --- what each of them leaves ---

    def _pass(self, gap: timedelta) -> None:
        self.world.pass_time(gap + timedelta(seconds=37))

    def _begin(self, doing: str) -> dict[str, Any]:
        """Write sources and site file; return the site file."""
        self.count += 1
        self.doing = doing
        site = self.world.write()
        robots = self.world.public.objects()[ROBOTS_TXT]  # the site's own rules may be others now
        self.seen.objects[ROBOTS_TXT], self.seen.content[ROBOTS_TXT] = robots, content(ROBOTS_TXT, robots)
        return site

    def _night(self, *, kill: tuple[int, str] | None = None, ping: bool = True, **options: Any) -> None:
        asked = self.ask(ping=ping, **options)
        if asked is not None:
            self.answer(asked, self.world.run(ping=ping, kill=kill, **asked.options))

    def ask(self, *, ping: bool = True, **options: Any) -> Asked | None:
        """Write sources and site file, and return the prediction of the model.

        None if the run is to be forced through gates that no longer exist.
        """
        only = options.pop("only", ())
        force: tuple[str, ...] = options.get("force", ())
        for spec in self._turned():
            spec.broken = False
        site = self._begin(f"run {options} {only}")
        sources = {name: self.world.source(spec) for name, spec in self.world.specs.items()}
        columns = {name: source.columns for name, source in sources.items()}

        def without(broken: set[str]) -> Night:
            return self.model.predict(
                site,
                {name: replace(source, broken=source.broken or name in broken) for name, source in sources.items()},
                now,
                only=only,
                full=options.get("full", False),
                force=force,
                disallow=self.world.robots,
            )

        now = self.world.now
        night = without(set())
        known = {gate for gate in force if gate.rpartition(".")[0] in {"", *site["sections"]}}
        if force:
            options = {**options, "force": tuple(sorted(known)), "reason": "meant"}
            if not known:
                return None
        kept = frozenset(self._placed(night) & _listed(night))
        return Asked(night, without, columns, {**options, "sections": only}, tuple(sorted(known)), kept, ping)

    def answer(self, asked: Asked, done: Done, *, troubled: bool = False) -> None:
        """Compare the result of a run, and what it left, with the request.

        `troubled`: something happened to it, so that it may have ended with an error.
        """
        night, columns = asked.night, asked.columns
        self.broken = self.broken or troubled
        if troubled and done.summary is not None:
            # What was read of a section that is kept on errors may not have got to where it is staged.
            held = night.listed.keys() & done.summary["kept"].keys()
            night = asked.without(held) if held else night
        if done.died or (troubled and done.summary is None):
            self._died(asked, done)
        elif night.error:
            self._expect_error(done, night.error)
        elif asked.options.get("dry_run"):
            self._shown(night, done, columns)
        elif night.refused is not False and (night.refused or self._status(done) == "refused"):
            self._refuses(done)
            self._stage(night, done, columns)
            self.refused = tuple(name for name, answer in night.gates.items() if answer is not False)
        else:
            sound = not self.broken and not night.stay
            self._settle(night, done, columns, forced=asked.forced, ping=asked.ping)
            if sound and self.count % 2 == 0:
                self._repeated_in_full(night)

    def _repeated_in_full(self, night: Night) -> None:
        """Run again with `--full --dry-run`. The run missed what that would write.

        Rows that an incremental read can't see are ignored: finding them is the purpose of a full read.
        """
        for name, mirror in night.mirrors.items():
            spec = self.world.specs[name]
            rows = self.world.source(spec).rows
            key, gone = night.keys(name)["from"]["key"], night.keys(name)["from"].get("deleted")
            live = {row[key]: row for row in rows if gone is None or row[gone] in (None, False, 0, "")}
            if live != mirror.rows:
                return
        self._tally("repeated in full")
        done = self.world.run(ping=False, full=True, dry_run=True)
        planned = {} if done.summary is None else done.summary["plan"]
        found = {each: planned.get(each) for each in ("write", "retire", "unmanaged")}
        problems = [f"repeated in full, it {self._ended(done)}"] if done.summary is None else []
        problems += [f"repeated in full, the run would {each} {keys}" for each, keys in found.items() if keys]
        self._fail(problems)

    @staticmethod
    def _status(done: Done) -> str:
        return str(done.summary["status"]) if done.summary else "failed"

    def _stage(self, night: Night, done: Done, columns: dict[str, set[str]]) -> None:
        assert done.summary is not None
        self.staged.append((done.summary["run_id"], night, self.model.current, columns))

    def _expect_error(self, done: Done, why: str) -> None:
        self._tally("failed")
        for spec in self.world.specs.values():
            spec.broken = False
        self._fail([f"expected an error: {why}; it ended {self._status(done)}"] if not done.error else [])
        self._unchanged()

    def _refuses(self, done: Done) -> None:
        self._tally("refused")
        self._fail([] if self._status(done) == "refused" else [f"expected to be refused, it {self._ended(done)}"])
        self._unchanged()

    def _shown(self, night: Night, done: Done, columns: dict[str, set[str]]) -> None:
        """Check a dry run."""
        self._tally("dry run")
        wanted = {"dry_run"} | ({"refused"} if night.refused is not False else set())
        problems = [] if self._status(done) in wanted else [f"expected {wanted}, it {self._ended(done)}"]
        self._fail(problems + (self._counted(night, done) if done.summary else []))
        self._unchanged()
        self._stage(night, done, columns)

    def _unchanged(self) -> None:
        """Check that nothing public has changed."""
        seen = self.world.look()
        differ = {
            key
            for key in seen.objects.keys() | self.seen.objects.keys()
            if seen.objects.get(key) != self.seen.objects.get(key)
        }
        self._fail([f"nothing public was to be touched, but {sorted(differ)} is another"] if differ else [])
        self.seen = seen

    def _died(self, asked: Asked, done: Done) -> None:
        """Check that the public files are valid and list every remaining page; then let the next run continue."""
        self._tally("killed" if done.died else "failed on the way")
        before = self.seen
        seen = self.world.look()
        lost = asked.kept - {entry.loc for entries in seen.entries.values() for entry in entries}
        self._fail([f"{sorted(lost)} is unlisted on the way; it {self._ended(done)}"] if lost else [])
        for key in list(self.model.retired):
            if key in seen.index or seen.objects.get(key) != before.objects.get(key):
                del self.model.retired[key]  # it came back; should it leave again, its two days begin then
        self.seen = seen
        if self.overtaken():
            self._tally("killed after the commit")
            self.adopt(asked, before)
        elif self.found_nothing_to_do(asked, before):
            self._tally("failed after it had found nothing to do")
        self.hearing.interrupted(done.posted, self.world.now)
        self.broken = True

    def found_nothing_to_do(self, asked: Asked, before: Seen) -> bool:
        """Return whether the run had said so when it ended or stopped. `before`: the public files before it."""
        current = self.model.current
        if current is None or not self.world.ended_quietly(asked.night.now):
            return False
        self._keep(asked.night, self._there(asked, before), current)
        return True

    def overtaken(self) -> bool:
        """Return whether another release was committed than the model knows."""
        return self.world.current() != (self.model.current.run_id if self.model.current else None)

    def adopt(self, asked: Asked, before: Seen | None = None) -> None:
        """Note a committed run that has not ended. `before`: the public files before it."""
        before = before or self.seen
        self.seen = self.world.look()
        self._accept(asked.night, self._there(asked, before), ())
        self.broken = True

    def _there(self, asked: Asked, before: Seen) -> Set:
        """Compare what a committed but incomplete run left."""
        settling = Settling(
            self.model,
            asked.night.now,
            asked.night.site,
            self.seen,
            before,
            clock=self.world.now,
            doubt=True,
            died=True,
        )
        run_id = self.world.current()
        assert run_id is not None
        found = settling.night(asked.night, asked.columns, run_id)
        self._fail(settling.problems)
        return found

    def _placed(self, night: Night) -> set[str]:
        """Return the public URLs in files that are written in the order of moving rows.

        A view repeats pages of others, and its files are written in place.
        """
        views = {name for name in night.site["sections"] if is_view(night.keys(name))}
        views |= {
            name for name, each in (self.model.current.sections if self.model.current else {}).items() if each.view
        }
        files = {key: key.removeprefix("sitemap-").rpartition("-")[0] for key in self.seen.entries}
        return {
            entry.loc
            for key, name in files.items()
            if name not in views | {"recent"}
            for entry in self.seen.entries[key]
        }

    def _settle(
        self, night: Night, done: Done, columns: dict[str, set[str]], *, forced: tuple[str, ...], ping: bool
    ) -> None:
        """Check a run that published, or found nothing to do."""
        if done.summary is None:
            self._fail([f"expected a run to its end, it {self._ended(done)}"])
            return
        problems = self._counted(night, done, forced)
        seen = self.world.look()
        settling = Settling(self.model, night.now, night.site, seen, self.seen, clock=self.world.now, doubt=self.broken)
        found = settling.night(night, columns, done.summary["run_id"])
        problems += settling.problems
        same = seen.content == self.seen.content
        exact = same and not self.edited and not self.broken and not self.vanished
        wanted = {"unchanged"} if exact else {"published", "unchanged"} if same else {"published"}
        if night.held:
            wanted = {"partial"}
        elif (not self.world.up and ping) or (self.broken and _unasked(done)):
            wanted.add("partial")
        if self._status(done) not in wanted:
            problems.append(f"expected the status {wanted}, it {self._ended(done)}")
        self._tally("unchanged" if same else "published")
        self._fail(problems)
        self._files(done, seen)
        put = bool(done.summary["published"])
        before = self.model.current
        if put:
            self._accept(night, found, forced)
        elif before is not None:
            self._keep(night, found, before)
        self._heard(done, ping=ping)
        self.seen = seen
        self.edited, self.broken, self.refused = False, False, ()
        for name, keys in night.site["sections"].items():
            for key in keys:
                self._tally(f"{key}: {keys[key]}" if key in RULES else f"with {key}")
            self._tally("held" if name in night.held else "read" if name in night.listed else "carried")

    def _keep(self, night: Night, found: Set, before: Set) -> None:
        """Note a run that found nothing to do.

        The state besides the release is current; its mirrors are those it was made with.
        """
        found.run_id, found.now, found.mirrors = before.run_id, before.now, before.mirrors
        self.model.sets = [found if each is before else each for each in self.model.sets]
        self.staged = [(run, each, found if base is before else base, names) for run, each, base, names in self.staged]
        self.model.current = found
        self.model.mirrors = dict(night.mirrors)

    def _accept(self, night: Night, found: Set, forced: tuple[str, ...]) -> None:
        before = self.model.current
        self.model.accept(found, forced)
        quiet = any(
            before is not None and name in before.sections and before.sections[name].definition != section.definition
            for name, section in found.sections.items()
        )
        base = before.sections if before is not None else {}
        # Whether a page that only a view shows now is still listed is left open.
        without = {name for name in base.keys() & found.sections if not base[name].view and found.sections[name].view}
        self.hearing.published(before, found, quiet=quiet, without=without)

    def _restored(self, old: Set, done: Done) -> None:
        """Roll back and compare."""
        self._tally("rolled back")
        if done.summary is None:
            self._fail([f"expected to be rolled back, it {self._ended(done)}"])
            return
        before = self.model.current
        assert before is not None
        seen = self.world.look()
        settling = Settling(
            self.model, self.world.now, self.world.site.keys, seen, self.seen, clock=self.world.now, doubt=self.broken
        )
        found = settling.rollback(old, done.summary["run_id"])
        problems = settling.problems
        was, now = before.plain(), found.plain()
        both_names = before.sections.keys() & found.sections
        turned = {name for name in both_names if before.sections[name].view != found.sections[name].view}
        for name, counts in done.summary["sections"].items():
            if name in found.sections and not found.sections[name].view:
                section = found.sections[name]
                both = [loc for loc in section.pages if loc in was]
                wanted = {
                    "listed": len(section.pages),
                    "added": len(section.pages) - len(both),
                    "removed": sum(owner == name and loc not in now for loc, (owner, _) in was.items()),
                    "changed": sum(
                        changed(was[loc][1], page.lastmod, page.images, page.links, dated=section.dated)
                        for loc, page in section.pages.items()
                        if loc in was
                    ),
                }
                if turned:
                    wanted = {"listed": wanted["listed"]}
                problems += [
                    f"{name}: {each} {counts[each]}, expected {number}"
                    for each, number in wanted.items()
                    if counts[each] != number
                ]
        self._fail(problems)
        self.model.accept(found)
        self.hearing.published(before, found, quiet=False, without=turned)
        self._heard(done, ping=True)
        self.seen, self.edited, self.broken, self.refused = seen, True, False, ()

    def _heard(self, done: Done, *, ping: bool) -> None:
        silent = "pending on quiet nights" in NOT_YET and done.summary is not None and not done.summary["published"]
        if self.broken and _unasked(done):
            self.hearing.interrupted(done.posted, self.world.now)
        elif "ping" in self.world.site.keys and ping and self.model.current is not None and not silent:
            problems = self.hearing.asked(done.posted, self.world.now, up=self.world.up)
            told = done.summary["engines"] if done.summary else {}
            self._fail([f"{problem}; the summary says {told}" for problem in problems])

    def _counted(self, night: Night, done: Done, forced: tuple[str, ...] = ()) -> list[str]:
        """Compare the summary with the counts of the model."""
        assert done.summary is not None
        problems = []
        for name, wanted in night.counts.items():
            counts = done.summary["sections"].get(name)
            if counts is None:
                never = name in night.stay and (night.base is None or name not in night.base.sections)
                problems += [] if never else [f"{name} is not in the summary"]
                continue
            for each, number in wanted.items():
                if counts[each] != number:
                    problems.append(f"{name}: {each} {counts[each]}, expected {number}")
            least, most = night.changed[name]
            if not least <= counts["changed"] <= most:
                problems.append(f"{name}: changed {counts['changed']}, expected {least} to {most}")
        for name, reasons in night.reasons.items():
            told = {each: value["count"] for each, value in done.summary["reasons"][name]["rejected"].items()}
            if told != dict(reasons):
                problems.append(f"{name}: rejected {told}, expected {dict(reasons)}")
        told_gates = {each["name"]: each for each in done.summary["gates"]}
        for name, answer in night.gates.items():
            gate = told_gates.get(name, {"status": "absent", "message": ""})
            if answer is not None and (gate["status"] == "refused") != (answer and name not in forced):
                wanted_gate = "refused" if answer else "not refused"
                problems.append(f"gate {name} is {gate['status']}: {gate['message']}; expected {wanted_gate}")
        warned = {each.partition(":")[0] for each in done.summary["warnings"] if "within one hour" in each}
        problems += [
            f"{name} is {'' if name in warned else 'not '}warned of dates of one hour"
            for name, answer in night.batches.items()
            if answer is not None and answer != (name in warned)
        ]
        if night.drift:
            told_drift = done.summary.get("drift", {})
            for name, drift in night.drift.items():
                # Where what it was to be compared with is damaged, the log says so.
                if told_drift.get(name) != drift and not (self.broken and name not in told_drift):
                    problems.append(f"{name}: drift {told_drift.get(name)}, expected {drift}")
        return problems

    def _files(self, done: Done, seen: Seen) -> None:
        assert done.summary is not None
        before = self.seen.objects
        ours = {key for key in seen.objects if key not in (ROBOTS_TXT, f"{KEY}.txt")}
        written = {key for key in ours if before.get(key) != seen.objects[key]}
        deleted = before.keys() - seen.objects.keys()
        told = done.summary["files"]
        problems = []
        # Where files come, the index is written twice: with the old ones beside the new ones, and without.
        twice = INDEX in written and len(written) > 1
        # What left the set and was not deleted yet is written when it comes back, though it says the same.
        base = self.model.current.content if self.model.current else {}
        back = {key for key in ours - written if key not in base or not key.startswith("sitemap") or ".txt" in key}
        if not self.broken and not len(written) <= told["written"] <= len(written) + twice + len(back):
            problems.append(f"the summary tells of {told['written']} files written, these were: {sorted(written)}")
        if not self.broken and told["deleted"] != len(deleted):
            problems.append(f"the summary tells of {told['deleted']} files deleted, these were: {sorted(deleted)}")
        self._fail(problems)

    def _ended(self, done: Done) -> str:
        if done.summary is None:
            return "was killed" if done.died else f"ended with {done.error}{done.defect and chr(10)}{done.defect}"
        return f"ended {done.summary['status']}: {done.summary['error']}"

    def _tally(self, what: str) -> None:
        TALLY[what] += 1

    def _fail(self, problems: list[str]) -> None:
        if problems:
            told = "\n".join(f"  - {problem}" for problem in problems)
            raise AssertionError(
                f"run {self.count} at {stamp(self.world.now)}: {self.doing}\n{told}\n\n{self.world.yaml()}"
            )


def _listed(night: Night) -> set[str]:
    """Return the pages that plain sections list after the run, as far as they are read; none if it can't succeed."""
    if night.error:
        return set()
    return {loc for name, listed in night.listed.items() if not is_view(night.keys(name)) for loc in listed}


def _unasked(done: Done) -> bool:
    """Return whether the run says that the engine could not be asked, as it may if its store failed."""
    engines = done.summary["engines"] if done.summary else {}
    return any(answer["status"] in ("unavailable", "failed") for answer in engines.values())
