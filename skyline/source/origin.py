"""Origins of a value: the possible ends of the search back through the program."""

from __future__ import annotations

import ast
from dataclasses import replace
from enum import Enum, auto

from skyline.lazy_dataclass import dataclass
from skyline.source.command_line import Option
from skyline.source.knob import KnobKind
from skyline.source.program import Module
from skyline.source.scope import NameScope
from skyline.source.text import Function


class HolderKind(Enum):
    """The way in which code refers to a variable."""

    NAME = auto()
    ATTRIBUTE = auto()
    ITEM = auto()


@dataclass(frozen=True, slots=True, eq=False)
class Holder:
    """A variable that a value passes through; ``scope`` distinguishes equal names (None: known by name alone)."""

    kind: HolderKind
    name: str
    module: Module
    scope: NameScope | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Route:
    """The path of a value. ``kind`` and ``name`` describe its current place, as in ``Knob``.

    ``computed`` names the arithmetic on the path, if any. ``evaluation`` is set if the path passes through a name that
    refers to validation or testing.
    """

    kind: KnobKind
    name: str
    trail: tuple[str, ...] = ()
    holders: tuple[Holder, ...] = ()
    computed: str = ""
    option: Option | None = None
    evaluation: bool = False

    def through(self, kind: KnobKind, holder: Holder, label: str = "") -> Route:
        """The path extended by one variable."""
        label = label or holder.name
        trail = self.trail if label in self.trail else (*self.trail, label)
        return replace(self, kind=kind, name=label, trail=trail, holders=(*self.holders, holder))

    def computed_by(self, text: str) -> Route:
        """The path through arithmetic; the arithmetic nearest to the use is the one to report."""
        return replace(self, computed=self.computed or text)

    def for_evaluation(self, evaluation: bool) -> Route:
        """The path through a call that may serve evaluation."""
        return replace(self, evaluation=self.evaluation or evaluation)


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """The context in which an expression is evaluated.

    Inside ``function``, parameters have the arguments of ``call``, evaluated in ``caller``, if a single call is known
    to apply. ``instance`` is then the value of ``self``.
    """

    module: Module
    scope: NameScope
    function: ast.AST | None = None
    call: ast.Call | None = None
    caller: Frame | None = None
    instance: Instance | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """An expression at which the search ends: a literal, a display, arithmetic, a call of unknown code."""

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
    """An object of a class of the program; ``call`` constructed it in ``frame``, if known."""

    of: ClassFound
    route: Route
    call: ast.Call | None = None
    frame: Frame | None = None


Found = Value | ClassFound | FunctionFound | ModuleFound | Instance


def same(one: Found, other: Found) -> bool:
    """True if both are known to be the same object."""
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
