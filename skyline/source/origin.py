"""Where a value comes from: what following an expression back through the program can end at."""

from __future__ import annotations

import ast
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Protocol

from skyline.source.command_line import Option
from skyline.source.knob import KnobKind
from skyline.source.program import Module, Program
from skyline.source.scope import NameScope
from skyline.source.syntax import Function


class HolderKind(Enum):
    """How a variable is named by those who read it."""

    NAME = auto()
    ATTRIBUTE = auto()
    ITEM = auto()


@dataclass(frozen=True, slots=True, eq=False)
class Holder:
    """A variable that a value passes through; ``scope`` tells equal names apart (None: known by name alone)."""

    kind: HolderKind
    name: str
    module: Module
    scope: NameScope | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Route:
    """How a value was reached. ``kind`` and ``name`` are of the place it stands at, as in ``Knob``.

    ``computed`` names the arithmetic on the way, if any; ``evaluation`` is set where the way leads through
    something named after validation or testing.
    """

    kind: KnobKind
    name: str
    trail: tuple[str, ...] = ()
    holders: tuple[Holder, ...] = ()
    computed: str = ""
    option: Option | None = None
    evaluation: bool = False

    def through(self, kind: KnobKind, holder: Holder, label: str = "") -> Route:
        """One variable further back."""
        label = label or holder.name
        trail = self.trail if label in self.trail else (*self.trail, label)
        return replace(self, kind=kind, name=label, trail=trail, holders=(*self.holders, holder))

    def computed_by(self, text: str) -> Route:
        """Behind arithmetic; the arithmetic nearest to the use is the one to name."""
        return replace(self, computed=self.computed or text)

    def for_evaluation(self, evaluation: bool) -> Route:
        """Through a call that may serve evaluation."""
        return replace(self, evaluation=self.evaluation or evaluation)


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """The place an expression is evaluated at.

    Inside ``function``, parameters have the arguments of ``call``, evaluated in ``caller``, where that one
    call is known to be meant; ``instance`` is then what ``self`` stands for.
    """

    module: Module
    scope: NameScope
    function: ast.AST | None = None
    call: ast.Call | None = None
    caller: Frame | None = None
    instance: Instance | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """An expression that cannot be followed further: a literal, a display, arithmetic, a foreign call."""

    node: ast.expr
    frame: Frame
    route: Route


@dataclass(frozen=True, slots=True, eq=False)
class ClassFound:
    """A class of the program."""

    node: ast.ClassDef
    module: Module
    route: Route


@dataclass(frozen=True, slots=True, eq=False)
class FunctionFound:
    """A function of the program."""

    node: Function
    module: Module
    route: Route


@dataclass(frozen=True, slots=True, eq=False)
class ModuleFound:
    """A module of the program."""

    module: Module
    route: Route


@dataclass(frozen=True, slots=True, eq=False)
class Instance:
    """An object of a class of the program; ``call`` constructed it in ``frame``, where that is known."""

    of: ClassFound
    route: Route
    call: ast.Call | None = None
    frame: Frame | None = None


Found = Value | ClassFound | FunctionFound | ModuleFound | Instance


class OriginSearch(Protocol):
    """What the parts of the search need of each other."""

    program: Program
    options: tuple[Option, ...]

    def follow(self, node: ast.expr, frame: Frame, route: Route) -> list[Found]:
        """Everything an expression may come from, likeliest first."""
        ...

    def looking_up(self, found: Found, name: str) -> AbstractContextManager[bool]:
        """Guards the search for one member; gives False where that very search is already under way."""
        ...

    def bound(
        self, scope: NameScope, name: str, frame: Frame, route: Route, before: ast.expr | None
    ) -> list[Found]:
        """Everything a name bound in this very scope may come from, at the place ``before``."""
        ...

    def called(
        self, function: FunctionFound, call: ast.Call | None, frame: Frame, owner: Instance | None
    ) -> list[Found]:
        """Everything a function may return."""
        ...


def same(one: Found, other: Found) -> bool:
    """Whether both are the same object, as far as can be told."""
    match one, other:
        case (Value(), Value()):
            return one.node is other.node
        case (Instance(), Instance()):
            same_call = one.call is other.call or one.call is None or other.call is None
            return one.of.node is other.of.node and same_call
        case (ClassFound(), ClassFound()):
            return one.node is other.node
        case (ModuleFound(), ModuleFound()):
            return one.module is other.module
        case _:
            return False
