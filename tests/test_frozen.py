"""Classes that hold values: frozen dataclasses in all that others see of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import FrozenInstanceError, field, fields, is_dataclass, replace
from typing import Any

import pytest

from sitemap_etl.frozen import Frozen


class Point(Frozen):
    x: int
    y: int = 0
    name: str = field(default="", compare=False)
    secret: str = field(default="", repr=False)


class Named(Point):
    of: Mapping[str, int] = field(default_factory=dict, kw_only=True)


class Other(Frozen):
    x: int
    y: int = 0


def test_they_are_frozen_dataclasses() -> None:
    point = Point(1, 2)

    assert is_dataclass(point)
    assert [entry.name for entry in fields(Named)] == ["x", "y", "name", "secret", "of"]
    assert replace(Named(1, of={"a": 1}), x=3) == Named(3, of={"a": 1})
    with pytest.raises(FrozenInstanceError):
        point.x = 3  # type: ignore[misc] # that is what is tried
    with pytest.raises(FrozenInstanceError):
        del point.x
    with pytest.raises(TypeError, match="x"):
        Point()  # type: ignore[call-arg] # likewise


@pytest.mark.parametrize(
    ("other", "same"),
    [
        (Point(1, 2), True),
        (Point(1, 2, "else"), True),
        (Point(1, 3), False),
        (Point(1, 2, secret="else"), False),
        (Named(1, 2), False),
        (Other(1, 2), False),
        ((1, 2), False),
        (None, False),
    ],
)
def test_two_are_equal_that_are_of_one_class_and_compare_alike(other: Any, same: bool) -> None:
    assert (Point(1, 2) == other) is same
    assert (Point(1, 2) != other) is not same
    assert not same or hash(other) == hash(Point(1, 2))


def test_they_show_what_they_hold_and_no_secret() -> None:
    assert repr(Point(1, 2, "a", "hush")) == "Point(x=1, y=2, name='a')"
    assert repr(Named(1, of={"b": 2})) == "Named(x=1, y=0, name='', of={'b': 2})"


def test_what_can_not_be_hashed_is_told_when_it_is_hashed() -> None:
    with pytest.raises(TypeError, match="unhashable"):
        hash(Named(1))
