"""The products of a model as terms over its values, with their sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

Size = tuple[int, ...]


class Op(str, Enum):
    """The operation of a term, named like the constructors in the rules."""

    LEAF = "Leaf"
    """A value from outside the block, identified by its number."""
    PRODUCT = "Product"
    AFFINE = "Affine"
    """A product and a bias that one operator adds to it."""
    SUM = "Sum"
    SCALED = "Scaled"
    """A value times a plain number, given by its index in ``Block.numbers``."""
    SWAPPED = "Swapped"
    """A value with two dimensions exchanged."""
    JOINED = "Joined"
    """The columns of two parameters joined into one parameter."""
    COLUMNS = "Columns"
    """A range of columns: the first column, and their count."""
    CONVOLVED = "Convolved"
    """A convolution, by the number of its term."""
    NORMED = "Normed"
    """A batch normalization in an evaluation, by the number of its term."""
    FOLDED = "Folded"
    """A convolution with a batch normalization folded into its weights; by the numbers of both."""


@dataclass(frozen=True, slots=True)
class Place:
    """The place at which the work of a term is recorded.

    ``module`` is the path below the block (empty: the block's own code), ``line`` the line of the code.
    """

    module: str
    line: int
    file: str
    op: Op


@dataclass(frozen=True, slots=True)
class Term:
    """One term; ``children`` are indices of earlier terms in ``Block.terms``.

    A leaf may be a parameter, and a parameter may be trained. ``place`` is None for leaves.
    """

    op: Op
    children: tuple[int, ...] = ()
    numbers: tuple[int, ...] = ()
    size: Size = ()
    place: Place | None = None
    parameter: bool = False
    trained: bool = True
    name: str = ""


@dataclass(frozen=True, slots=True)
class Block:
    """Terms that always run together, in each module at ``paths``. ``needed`` are the terms that other code reads."""

    terms: tuple[Term, ...]
    needed: frozenset[int]
    numbers: tuple[str, ...]
    number_format: str
    evaluating: bool = False
    paths: tuple[str, ...] = ()


def size_of(op: Op, numbers: Sequence[int], sizes: Sequence[Size]) -> Size | None:
    """The size of a term from the sizes of its children; None if they do not fit."""
    match op:
        case Op.PRODUCT:
            return _product(*sizes)
        case Op.AFFINE:
            return _product(*sizes[1:])
        case Op.SUM:
            return _broadcast(*sizes)
        case Op.JOINED:
            first, second = sizes
            return (*first[:-1], first[-1] + second[-1]) if first[:-1] == second[:-1] else None
        case Op.COLUMNS:
            return (*sizes[0][:-1], numbers[1]) if sizes[0] and sum(numbers) <= sizes[0][-1] else None
        case Op.SWAPPED:
            return swapped(sizes[0], numbers)
        case _:
            return sizes[0] if sizes else None


def _product(left: Size, right: Size) -> Size | None:
    if not left or len(right) < 2 or left[-1] != right[-2]:
        return None
    if len(right) == 2:
        return (*left[:-1], right[-1])
    if len(left) < 2:
        return None
    front = _broadcast(left[:-2], right[:-2])
    return None if front is None else (*front, left[-2], right[-1])


def _broadcast(first: Size, second: Size) -> Size | None:
    longest = max(len(first), len(second))
    one, other = ((1,) * (longest - len(each)) + each for each in (first, second))
    if any(a != b and 1 not in (a, b) for a, b in zip(one, other, strict=True)):
        return None
    return tuple(map(max, one, other))


def swapped(size: Size, dimensions: Sequence[int]) -> Size | None:
    """The size with two dimensions exchanged; None if it does not have them."""
    if not all(-len(size) <= one < len(size) for one in dimensions):
        return None
    changed = list(size)
    first, second = dimensions
    changed[first], changed[second] = size[second], size[first]
    return tuple(changed)
