"""The place that sets a number which the user names: a constant, option, field, parameter, keyword or entry."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from pathlib import PurePath

from skyline.errors import UsageError
from skyline.lazy_dataclass import dataclass
from skyline.source.knob import KnobKind
from skyline.source.text import SourceSpan, SourceText, TextEdit

Number = int | float

_LISTED = 6
_MOST_POWER = 64


@dataclass(frozen=True, slots=True)
class AskedName:
    """A name as the user types it, with its ``owner`` (class, function, dictionary) and its place, if given."""

    name: str
    owner: str = ""
    file: str = ""
    line: int = 0

    @classmethod
    def parse(cls, text: str) -> AskedName:
        """From ``width``, ``Net.width``, ``width@12`` or ``width@model.py:12``; raises UsageError for other text."""
        named, at, place = text.partition("@")
        file, _, line = place.rpartition(":")
        if at and not line.isdecimal():
            raise UsageError(
                f"{text!r} names no line after @",
                hint="Example: --vary width@12=64,128 or width@model.py:12=64,128.",
            )
        owner, _, name = named.strip().lstrip("-").replace("-", "_").rpartition(".")
        if not name.isidentifier():
            raise UsageError(
                f"{text!r} is not the name of a setting",
                hint="Name a constant, option, field or keyword of the script, for example --vary n_embd=64:512:64.",
            )
        return cls(name, owner, file, int(line or 0))

    def means(self, place: NumberPlace) -> bool:
        """True for a place of this name, owner, file and line."""
        return (
            self.name == place.name
            and self.owner in ("", place.owner)
            and self.line in (0, place.span.line)
            and (not self.file or PurePath(place.span.file).match(self.file))
        )


@dataclass(frozen=True, slots=True)
class NumberPlace:
    """A place that holds a number.

    ``text`` is the expression as written, ``value`` the number in force, None if unknown. ``owner`` is the
    class, function or dictionary of the name, empty for a name of the file. A ``flag`` sets the number in the
    script's arguments; so does the argument at ``argument_index``. Without either, the text is edited. Of
    several places with one name, the place with the lowest ``rank`` holds for the run.
    """

    name: str
    kind: KnobKind
    span: SourceSpan
    text: str
    value: Number | None
    rank: int
    owner: str = ""
    flag: str = ""
    argument_index: int | None = None

    @property
    def words(self) -> str:
        """The place as text for the user: ``train.py line 12 (`width = 64`)``."""
        where = f"{PurePath(self.span.file).name} line {self.span.line}"
        text = " ".join(self.text.split())
        shown = f"{self.name} = {text}"
        if self.flag:
            shown = self.flag if self.value is None else f"{self.flag}={self.value}"
        return f"{where} (`{shown}`)" if shown else where

    def edit(self, value: Number, text: SourceText) -> TextEdit:
        """The edit of the file that sets another number."""
        return text.edit(self.span, self.written(value))

    def arguments(self, value: Number, given: tuple[str, ...]) -> tuple[str, ...]:
        """The script's arguments with another number; unchanged for a place in the text."""
        if self.argument_index is not None:
            entry = given[self.argument_index]
            head = entry[: entry.rindex("=") + 1] if "=" in entry else ""
            changed = f"{head}{self.written(value)}"
            return (*given[: self.argument_index], changed, *given[self.argument_index + 1 :])
        if not self.flag:
            return given
        entry = (
            (f"{self.flag}={self.written(value)}",)
            if self.flag.startswith("--")
            else (self.flag, self.written(value))
        )
        end = given.index("--") if "--" in given else len(given)
        return (*given[:end], *entry, *given[end:])

    def written(self, value: Number) -> str:
        """A number in the notation of this place: a float stays a float."""
        return repr(float(value)) if isinstance(self.value, float) else repr(value)


_OPERATORS: dict[type[ast.operator], Callable[[Number, Number], Number]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: lambda one, other: one // other,
    ast.Div: lambda one, other: one / other,
}


def number_of(node: ast.expr | None) -> Number | None:
    """The number of a literal, or of arithmetic of literals such as ``4 * 64``; None for anything else."""
    match node:
        case ast.Constant(value=bool()):
            return None
        case ast.Constant(value=int() | float() as value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            value = number_of(operand)
            return None if value is None else -value
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            base, power = number_of(left), number_of(right)
            small = base is not None and power is not None and abs(power) <= _MOST_POWER and abs(base) <= 1e6
            return base**power if small and base is not None and power is not None and base > 0 else None
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            first, second = number_of(left), number_of(right)
            if first is None or second is None:
                return None
            try:
                return _OPERATORS[type(op)](first, second)
            except (ArithmeticError, ValueError):
                return None
        case _:
            return None


def chosen(asked: AskedName, places: Sequence[NumberPlace], script: str) -> NumberPlace:
    """The place that a name refers to.

    Raises:
        UsageError: no place has the name, or several hold for the run; the hint names them.
    """
    found = [place for place in places if asked.means(place)]
    if not found:
        raise _unknown(asked, places, script)
    first = min(place.rank for place in found)
    best = list({(p.span.file, p.span.line, p.span.column): p for p in found if p.rank == first}.values())
    if len(best) == 1:
        return best[0]
    listed = "; ".join(place.words for place in best[:_LISTED]) + ("; …" if len(best) > _LISTED else "")
    one = best[0]
    lines = {place.span.line for place in best}
    short = len(lines) > 1 and one.span.file == script
    at = f"{one.span.line}" if short else f"{PurePath(one.span.file).name}:{one.span.line}"
    raise UsageError(
        f"{asked.name} is set in {len(best)} places: {listed}",
        hint=f"Name one of them by its line: --vary {asked.name}@{at}=…",
    )


def names(places: Iterable[NumberPlace]) -> tuple[str, ...]:
    """The names of places, in the order in which the script shows them: options, constants, then the rest."""
    ordered = sorted(places, key=lambda place: place.rank)
    return tuple(dict.fromkeys(place.name for place in ordered))


def _unknown(asked: AskedName, places: Sequence[NumberPlace], script: str) -> UsageError:
    named = [place for place in places if place.name == asked.name]
    if named:
        listed = "; ".join(place.words for place in named[:_LISTED])
        return UsageError(
            f"{asked.name} is not set there",
            hint=f"It is set in {listed}. Example: --vary {asked.name}@{named[0].span.line}=…",
        )
    known = names(places)
    near = get_close_matches(asked.name, known, n=3, cutoff=0.5)
    hint = (
        f"Did you mean {' or '.join(near)}?"
        if near
        else f"It sets: {', '.join(known[:16])}."
        if known
        else ""
    )
    more = "A number without a name cannot be varied: give it a name first, for example `width = 64`."
    return UsageError(
        f"{PurePath(script).name} sets no number called {asked.name}",
        hint=f"{hint}\n{more}" if hint else more,
    )
