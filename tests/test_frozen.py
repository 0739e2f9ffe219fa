"""Record classes: frozen dataclasses in everything that is visible from outside."""

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


def test_records_are_frozen_dataclasses() -> None:
    point = Point(1, 2)

    assert is_dataclass(point)
    assert [entry.name for entry in fields(Named)] == ["x", "y", "name", "secret", "of"]
    assert replace(Named(1, of={"a": 1}), x=3) == Named(3, of={"a": 1})
    with pytest.raises(FrozenInstanceError):
        point.x = 3  # type: ignore[misc] # that is what is tried
    with pytest.raises(FrozenInstanceError):
        del point.x
    assert replace(point, y=5) == Point(1, 5)


@pytest.mark.parametrize(
    ("given", "named", "told"),
    [
        ((), {}, "Point lacks x"),
        ((1,), {"z": 2}, "Point does not know z"),
        ((1,), {"x": 2}, "Point is given twice x"),
        ((1, 2, "a", "b", 5), {}, "Point takes 4 values, not 5"),
        ((), {"z": 2}, "Point does not know z and lacks x"),
    ],
)
def test_records_accept_values_for_their_fields_only(given: Any, named: Any, told: str) -> None:
    with pytest.raises(TypeError) as caught:
        Point(*given, **named)
    assert str(caught.value) == told


def test_a_keyword_only_field_is_not_positional() -> None:
    with pytest.raises(TypeError, match="Named takes 4 values, not 5"):
        Named(1, 2, "", "", {})  # type: ignore[misc] # that is what is tried


def test_default_values_are_not_shared() -> None:
    one, other = Named(1), Named(1)
    assert one.of is not other.of


def test_post_init_is_called() -> None:
    class Positive(Point):
        def __post_init__(self) -> None:
            if self.x <= 0:
                raise ValueError(f"{self.x} is not positive")

    assert Positive(1).x == 1
    with pytest.raises(ValueError, match="0 is not positive"):
        Positive(0)


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
def test_records_are_equal_if_class_and_compared_fields_are(other: Any, same: bool) -> None:
    assert (Point(1, 2) == other) is same
    assert (Point(1, 2) != other) is not same
    assert not same or hash(other) == hash(Point(1, 2))


def test_the_repr_of_a_record_shows_fields_without_secrets() -> None:
    assert repr(Point(1, 2, "a", "hush")) == "Point(x=1, y=2, name='a')"
    assert repr(Named(1, of={"b": 2})) == "Named(x=1, y=0, name='', of={'b': 2})"


def test_an_unhashable_record_fails_only_when_it_is_hashed() -> None:
    with pytest.raises(TypeError, match="unhashable"):
        hash(Named(1))
