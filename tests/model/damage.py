"""Damage: an object of the state is changed, cut or lost; the next run names it and refuses, or works without it."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import ClassVar

from sitemap_etl.runs.verify import verify_state
from tests.model.trial import Trial

HEARD = ("/state/changes/", "/state/ledger/")
UNREAD = (".gitignore",)


class Damage(Trial):
    kind: ClassVar[str] = "damage"

    def trouble(self) -> None:
        self.change()
        self.some_time()
        self.good_night()
        path = self._object()
        if path is not None:
            if self.dice.random() < 0.5:
                self.change()
            self.some_time()
            self._damaged_night(path)
            self._pass(timedelta(minutes=21))
            self.good_night()

    def _object(self) -> Path | None:
        """Choose an object of the state: each kind is equally likely."""
        work = self.world.folder / "work"
        kinds: dict[str, list[Path]] = {}
        for path in sorted(work.rglob("*")):
            if path.is_file() and path.name not in UNREAD:
                kinds.setdefault(_kind(path, work), []).append(path)
        return self.dice.choice(kinds[self.dice.choice(sorted(kinds))]) if kinds else None

    def _damaged_night(self, path: Path) -> None:
        dice = self.dice
        whole = path.read_bytes()
        how = dice.choice(["a flipped bit", "a flipped bit", "cut off", "emptied", "gone"])
        at = dice.randrange(max(1, len(whole)))
        damaged = {
            "a flipped bit": whole[:at] + bytes([whole[at] ^ 1 << dice.randrange(8)]) + whole[at + 1 :]
            if whole
            else b"x",
            "cut off": whole[:at],
            "emptied": b"",
            "gone": None,
        }[how]
        if damaged is None:
            path.unlink()
        else:
            path.write_bytes(damaged)
        self.points[f"{how}: {_kind(path, self.world.folder / 'work')}"] += 1
        if any(part in str(path) for part in HEARD) or path.name == "current.json":
            now = self.model.current.plain() if self.model.current else {}
            self.hearing.lost({*now, *(url for each in self.model.sets for url in each.plain())})
        asked = self.ask()
        assert asked is not None
        done = self.world.run(**asked.options)
        refused = not asked.night.error and done.summary is None
        if refused and (done.code not in (1, 65) or (done.code == 65 and path.name not in done.error)):
            self._fail([f"{path} is {how}; expected to be told so, it {self._ended(done)}"])
        if done.defect:
            self._fail([f"{path} is {how}; it {self._ended(done)}"])
        if not (refused and self.plain and self._repaired()):
            there = path.read_bytes() if path.exists() else None
            if there == damaged:  # no run has written it anew
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(whole)
        self.answer(asked, done, troubled=True)

    def _repaired(self) -> bool:
        """Return whether the state could be repaired; else the object is restored."""
        if self.dice.random() < 0.3:
            return False
        sound = verify_state(self.world.site.load(), self.world.site.environment, repair=True).sound
        self.points["repaired"] += sound
        if sound:
            self._went_back()
        return sound

    def _went_back(self) -> None:
        """Compare with an older release if the repair returned to it, as it does if the last manifest is lost.

        The public files stay. The next run publishes them again, as changes to the older release.
        """
        run_id = self.world.current()
        older = [each for each in self.model.sets if each.run_id == run_id]
        if older and older[-1] is not self.model.current:
            self.points["went back"] += 1
            self.hearing.lost(url for each in self.model.sets for url in each.plain())
            self.model.sets = self.model.sets[: self.model.sets.index(older[-1]) + 1]
            self.model.current = older[-1]
            for name in self.model.numbers:  # the next run gives its files the numbers that the lost set gave
                there = [each.sections[name] for each in self.model.sets if name in each.sections]
                self.model.numbers[name] = max((n for each in there if not each.view for n in each.files), default=0)


def _kind(path: Path, work: Path) -> str:
    """Return the kind of an object, from its folder or the beginning of its name."""
    parts = path.relative_to(work).parts[1:]  # the first is the site's name
    if parts[0] != "state":
        return parts[0]
    return parts[1] if len(parts) > 2 else parts[1].removesuffix(".json").partition("-")[0]
