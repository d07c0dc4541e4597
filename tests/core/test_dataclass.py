"""The dataclasses of this project behave as those of the standard library."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from dataclasses import FrozenInstanceError, asdict, field, fields, replace
from functools import cached_property
from typing import Any

import msgspec
import pytest

from skyline.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Point:
    """A point."""

    x: float
    y: float = 0.0
    names: tuple[str, ...] = ()
    notes: list[str] = field(default_factory=list[str], compare=False)


@dataclass(frozen=True, slots=True)
class Placed(Point):
    """A point with a place; the default of ``y`` is another one."""

    y: float = 5.0
    place: str = field(default="here", repr=False)


@dataclasses.dataclass(frozen=True, slots=True)
class Foreign(Point):
    """A class of another package."""

    weight: int = 1


@dataclass(frozen=True, slots=True)
class Home(Foreign):
    """A class that inherits from one of another package."""

    door: str = "red"


@dataclass(slots=True)
class Counter:
    """May change."""

    count: int = 0
    seen: dict[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True, eq=False)
class Derived:
    """Computes something once."""

    value: int

    @cached_property
    def double(self) -> int:
        """Twice the value."""
        return 2 * self.value


@dataclass(frozen=True, slots=True)
class Whole:
    """Derives a field, and refuses some values."""

    text: str
    length: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.text:
            raise ValueError("empty")
        object.__setattr__(self, "length", len(self.text))


@dataclass(frozen=True, eq=False, init=False)
class Own:
    """Has an ``__init__`` and a text of its own."""

    value: int

    def __init__(self, value: str) -> None:
        object.__setattr__(self, "value", int(value))

    def __repr__(self) -> str:
        return f"<{self.value}>"


@dataclass(frozen=True, slots=True)
class Node:
    """May hold itself."""

    inside: list[Any]


def test_objects_are_made_from_positions_names_and_defaults() -> None:
    assert (Point(1.0).x, Point(1.0).y, Point(1.0, 2.0).y, Point(1.0, names=("a",)).names) == (
        1,
        0,
        2,
        ("a",),
    )
    assert Point(1.0).notes == []
    assert Point(1.0).notes is not Point(1.0).notes
    assert (Placed(1.0).y, Placed(1.0).place) == (5.0, "here")
    assert Whole("four").length == 4
    assert Own("7").value == 7


@pytest.mark.parametrize("made", [Point, lambda: Point(1.0, unknown=2), lambda: Point(1, 2, 3, 4, 5)])  # type: ignore[call-arg]
def test_wrong_arguments_are_refused(made: Any) -> None:
    with pytest.raises(TypeError, match=r"Point\.__init__\(\)"):
        made()
    with pytest.raises(ValueError, match="empty"):
        Whole("")


def test_objects_with_equal_fields_are_equal_and_hash_alike() -> None:
    assert Point(1.0, 2.0) == Point(1.0, 2.0, notes=["other"])
    assert Point(1.0) != Point(2.0)
    assert Point(1.0, 5.0) != Placed(1.0)
    assert hash(Point(1.0, 2.0)) == hash(Point(1.0, 2.0)) == hash((1.0, 2.0, ()))
    assert len({Whole("a"), Whole("a"), Whole("b")}) == 2
    assert Derived(1) != Derived(1)
    assert Counter() == Counter()
    with pytest.raises(TypeError, match="unhashable"):
        hash(Counter())


def test_the_text_names_the_fields() -> None:
    assert repr(Point(1.0)) == "Point(x=1.0, y=0.0, names=(), notes=[])"
    assert repr(Placed(1.0)) == "Placed(x=1.0, y=5.0, names=(), notes=[])"
    assert (repr(Own("7")), repr(Whole("a"))) == ("<7>", "Whole(text='a')")
    node = Node([])
    node.inside.append(node)
    assert repr(node) == "Node(inside=[...])"


@pytest.mark.parametrize("frozen", [Point(1.0), Placed(1.0), Home(1.0), Derived(1)])
def test_frozen_objects_refuse_changes(frozen: Any) -> None:
    name = fields(frozen)[0].name
    with pytest.raises(FrozenInstanceError, match=f"cannot assign to field '{name}'"):
        setattr(frozen, name, 2.0)
    with pytest.raises(FrozenInstanceError):
        frozen.unknown = 1
    with pytest.raises(FrozenInstanceError, match=f"cannot delete field '{name}'"):
        delattr(frozen, name)


def test_others_may_change() -> None:
    counter = Counter()
    counter.count += 1
    assert counter == Counter(1)
    assert Derived(3).double == 6


def test_slots_leave_no_room_for_others() -> None:
    assert not hasattr(Point(1.0), "__dict__")
    assert not hasattr(Home(1.0), "__dict__")
    assert Placed.__slots__ == ("place",)
    with pytest.raises(AttributeError):
        Counter().unknown = 1  # type: ignore[attr-defined]


def test_the_standard_functions_know_the_classes() -> None:
    assert dataclasses.is_dataclass(Point)
    assert [one.name for one in fields(Placed)] == ["x", "y", "names", "notes", "place"]
    assert replace(Placed(1.0), x=2.0) == Placed(2.0)
    assert asdict(Point(1.0)) == {"x": 1.0, "y": 0.0, "names": (), "notes": []}
    match Point(1.0, 2.0):
        case Point(x, y):
            assert (x, y) == (1.0, 2.0)


def test_classes_inherit_in_both_directions() -> None:
    assert Foreign(1.0, weight=3) == Foreign(1.0, weight=3)
    assert repr(Home(1.0)) == "Home(x=1.0, y=0.0, names=(), notes=[], weight=1, door='red')"


@pytest.mark.parametrize("one", [Point(1.0, 2.0, ("a",), ["b"]), Home(2.0), Whole("abc"), Counter(3)])
def test_objects_survive_copying_and_pickling(one: Any) -> None:
    for again in (copy.copy(one), copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
        assert again == one
        assert repr(again) == repr(one)


def test_msgspec_reads_and_writes_them() -> None:
    point = Placed(1.0, 2.0, ("a",), ["b"])
    assert msgspec.json.decode(msgspec.json.encode(point), type=Placed) == point
    assert msgspec.json.decode(b'{"text": "abc", "length": 0}', type=Whole).length == 3


def test_what_is_no_field_is_refused() -> None:
    with pytest.raises(TypeError, match="is no field"):

        @dataclass(frozen=True)
        class Wrong:
            shared: ClassVar[int] = 1  # type: ignore[name-defined]  # noqa: F821
