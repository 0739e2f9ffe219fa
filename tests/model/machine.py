"""Random sequences of runs: all events of a site combined, in an order that Hypothesis chooses and can shrink."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from tests.model.edits import CELLS, GAPS, NAMES, ROBOTS, RULES, URLS
from tests.model.story import Story
from tests.model.trial import OF_ROWS, OF_RULES, SWAPPED
from tests.model.world import BROKEN, CONTRACT, HOWS, PAGES, World

section = st.integers(0, len(NAMES) - 1)
numbers = st.sets(st.integers(0, PAGES - 1), min_size=1, max_size=12)
gaps = st.sampled_from(GAPS)
dice = st.randoms(use_true_random=False)


class Nights(Story, RuleBasedStateMachine):
    """Changes of the sources and the site file, and runs."""

    def __init__(self) -> None:
        RuleBasedStateMachine.__init__(self)
        Story.__init__(self, World())

    def teardown(self) -> None:
        self.world.close()

    add = rule(at=section, numbers=numbers, how=st.sampled_from(HOWS))(Story.add)
    edit = rule(at=section, numbers=numbers, column=st.sampled_from(sorted(CELLS)), dice=dice)(Story.edit)
    date = rule(
        at=section, numbers=numbers, column=st.sampled_from(["updated", "reviewed", "lastmod", "first"]), dice=dice
    )(Story.date)
    date_without_zone = rule(at=section, numbers=numbers, hours=st.integers(1, 2_000))(Story.date_without_zone)
    touch = rule(at=section, numbers=numbers)(Story.touch)
    rename = rule(at=section, numbers=numbers, to=st.integers(0, PAGES - 1))(Story.rename)
    respell = rule(at=section, numbers=numbers, how=st.sampled_from(HOWS))(Story.respell)
    move = rule(at=section, to=section, numbers=numbers, stay=st.booleans())(Story.move)
    double = rule(at=section, numbers=numbers, column=st.sampled_from(["body", "updated", "images", "rank", "title"]))(
        Story.double
    )
    swap = rule(at=section, numbers=numbers, column=st.sampled_from(SWAPPED))(Story.swap)
    drop = rule(at=section, numbers=numbers)(Story.drop)
    mark_deleted = rule(at=section, numbers=numbers, gone=st.sampled_from([1, None]))(Story.mark_deleted)
    spoil = rule(at=section, text=st.sampled_from(sorted(BROKEN)))(Story.spoil)
    shuffle = rule(at=section, seed=st.integers(0, 99), parts=st.integers(1, 3))(Story.shuffle)
    rules = rule(at=section, key=st.sampled_from(sorted(RULES)), dice=dice)(Story.rules)
    column = rule(at=section, name=st.sampled_from(CONTRACT))(Story.column)
    urls = rule(urls=st.sampled_from(URLS), robots=st.sampled_from(ROBOTS))(Story.urls)
    recent = rule(recent=st.sampled_from([None, "3d", "1d"]))(Story.recent)
    section_comes_or_goes = rule(dice=dice, name=st.sampled_from(NAMES))(Story.section_comes_or_goes)
    reorder = rule(seed=st.integers(0, 99))(Story.reorder)
    break_source = rule(at=section, keep=st.sampled_from([True, True, True, False]))(Story.break_source)
    mend_source = rule(at=section)(Story.mend_source)
    view = rule(at=section)(Story.view)
    engine = rule()(Story.engine)
    night = rule(gap=gaps, full=st.booleans(), ping=st.sampled_from([True, True, False]))(Story.night)
    quiet_night = rule(gap=gaps)(Story.quiet_night)
    noticed = rule(gap=gaps, change=st.sampled_from(OF_ROWS + OF_RULES), at=section, numbers=numbers, dice=dice)(
        Story.noticed
    )
    one_section = rule(gap=gaps, at=section)(Story.one_section)
    dry = rule(gap=gaps)(Story.dry)
    forced = precondition(lambda self: self.refused)(rule(gap=gaps)(Story.forced))
    publish_staged = precondition(lambda self: self.staged)(
        rule(gap=gaps, at=st.integers(0, 9), force=st.booleans())(Story.publish_staged)
    )
    killed = rule(gap=gaps, writes=st.integers(0, 25), since=st.sampled_from(["", "/intent-", "/intent-"]))(
        Story.killed
    )
    lost = precondition(lambda self: self.model.current is not None)(rule(gap=gaps, at=st.integers(0, 99))(Story.lost))
    rollback = precondition(lambda self: self.model.current is not None)(
        rule(gap=gaps, at=st.integers(0, 9), before=st.booleans())(Story.rollback)
    )
    begin = initialize(dice=dice)(Story.begin)
