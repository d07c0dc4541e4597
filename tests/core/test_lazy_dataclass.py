from __future__ import annotations

import copy
import dataclasses
import pickle
from dataclasses import FrozenInstanceError, field
from typing import Any

import msgspec
import pytest

from skyline import lazy_dataclass
from skyline.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """A class with each kind of field."""

    name: str
    sizes: tuple[int, ...] = ()
    notes: list[str] = field(default_factory=list, compare=False)
    _length: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_length", len(self.name))

    @property
    def length(self) -> int:
        return self._length


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    row: Row

    def __repr__(self) -> str:
        return "held"


@dataclass(frozen=True, slots=True)
class Hashed:
    value: int

    def __hash__(self) -> int:
        return 7


@dataclass(frozen=True, slots=True)
class Compared:  # noqa: PLW1641  the decorator adds it
    value: float

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Compared)


@dataclasses.dataclass(frozen=True, slots=True)
class Wider(Row):
    width: int = 3


def test_it_is_created_printed_compared_and_hashed_as_any_dataclass():
    row = Row("a", sizes=(1, 2))
    assert repr(row) == "Row(name='a', sizes=(1, 2), notes=[])"
    assert row == Row("a", (1, 2), ["aside"])
    assert row != Row("b", (1, 2))
    assert row != ("a", (1, 2))
    assert len({row, Row("a", (1, 2)), Row("b")}) == 2
    assert row.notes is not Row("a").notes
    assert row.length == 1
    assert not hasattr(row, "__dict__")
    match row:
        case Row(name, sizes):
            assert (name, sizes) == ("a", (1, 2))


def test_wrong_arguments_are_named():
    with pytest.raises(TypeError, match=r"Row\.__init__\(\) missing 1 required positional argument: 'name'"):
        Row()  # type: ignore[call-arg]


@pytest.mark.parametrize("name", ["name", "other"])
def test_it_cannot_be_changed(name: str):
    row = Row("a")
    with pytest.raises(FrozenInstanceError, match=f"cannot assign to field '{name}'"):
        setattr(row, name, "b")
    with pytest.raises(FrozenInstanceError, match=f"cannot delete field '{name}'"):
        delattr(row, name)


def test_it_is_copied_stored_and_replaced():
    row = Row("a", (1,), ["aside"])
    for other in (copy.copy(row), copy.deepcopy(row), pickle.loads(pickle.dumps(row))):
        assert (other, other.notes, other.length) == (row, ["aside"], 1)
    assert dataclasses.replace(Hashed(1), value=2) == Hashed(2)
    assert dataclasses.asdict(Hashed(1)) == {"value": 1}
    assert msgspec.json.decode(msgspec.json.encode(Hashed(1)), type=Hashed) == Hashed(1)


def test_what_a_class_writes_itself_is_kept():
    held = Held(Row("a"))
    assert repr(held) == "held"
    assert held != Held(Row("a"))
    assert hash(Hashed(1)) == 7
    assert Hashed(1) == Hashed(1) != Hashed(2)
    assert Compared(1.0) == Compared(2.0)
    assert hash(Compared(1.0)) != hash(Compared(2.0))


def test_dataclasses_and_other_classes_inherit_from_it():
    assert repr(Wider("a", width=4)) == "Wider(name='a', sizes=(), notes=[], width=4)"
    assert Wider("a") == Wider("a") != Wider("a", width=4)

    class Plain(Row):
        pass

    plain = Plain("a")
    plain.extra = 4  # type: ignore[attr-defined]
    assert (plain.length, plain == Plain("a"), plain == Row("a")) == (1, True, False)
    with pytest.raises(FrozenInstanceError):
        plain.name = "b"  # type: ignore[misc]


def test_methods_are_compiled_on_their_first_use(monkeypatch: pytest.MonkeyPatch):
    compiled: list[dict[str, Any]] = []
    real = lazy_dataclass._compiled

    def noting(cls: type, **options: bool) -> type:
        compiled.append(options)
        return real(cls, **options)

    monkeypatch.setattr(lazy_dataclass, "_compiled", noting)

    @dataclass(frozen=True, slots=True)
    class Fresh:
        value: int

    assert compiled == []
    one, other = Fresh(1), Fresh(1)
    assert compiled == [{"repr": False, "eq": False}]
    assert one == other
    assert hash(one) == hash(other)
    assert repr(one).endswith("Fresh(value=1)")
    assert compiled == [{"repr": False, "eq": False}, {"init": False, "eq": True}]
