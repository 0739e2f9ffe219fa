"""A few rounds of random nights, held against the model. `make soak` plays more of them."""

from __future__ import annotations

import random

import pytest

from tests.model import soak


@pytest.mark.parametrize("_round", range(3))
def test_random_nights_go_as_documented(_round: int) -> None:
    number = random.SystemRandom().randrange(10**9)
    problem = soak.play(number)
    assert problem is None, f"{problem}\n\nThe same nights again: {soak.replay(number)}"
