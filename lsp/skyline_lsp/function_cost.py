"""What the functions and classes of a source take together."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from skyline.report.schema import LineReport

_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True, slots=True)
class FunctionCost:
    """A function or class with its cost per iteration; ``line`` is where its definition or first decorator is.

    A function has the lines that are in no function inside it, a class all lines of its methods. ``bound`` is what
    most of that time is bound by, empty where that is not known.
    """

    name: str
    line: int
    self_ms: float
    share: float
    bound: str = ""


def function_costs(
    text: str, rows: Iterable[LineReport], bounds: Mapping[int, str] | None = None
) -> tuple[FunctionCost, ...]:
    """The functions and classes of a source that the rows fall into, in source order.

    A class with one method alone says nothing that the method does not. ``bounds`` tells what lines are bound by.
    """
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return ()
    definitions = [node for node in ast.walk(tree) if isinstance(node, _Definition)]
    sums: dict[int, list[LineReport]] = {}
    parts: dict[int, set[int]] = {}
    for row in rows:
        around = [node for node in definitions if node.lineno <= row.line <= (node.end_lineno or node.lineno)]
        functions = [node for node in around if not isinstance(node, ast.ClassDef)]
        innermost = max(functions, key=lambda node: node.lineno, default=None)
        if innermost is not None:
            sums.setdefault(id(innermost), []).append(row)
        for node in around:
            if isinstance(node, ast.ClassDef):
                sums.setdefault(id(node), []).append(row)
                inside = [one for one in functions if one.lineno > node.lineno]
                method = min(inside, key=lambda one: one.lineno, default=None)
                parts.setdefault(id(node), set()).add(id(method))
    costs = [
        FunctionCost(
            name=node.name,
            line=min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)]),
            self_ms=sum(row.self_ms for row in sums[id(node)]),
            share=sum(row.share for row in sums[id(node)]),
            bound=_bound(sums[id(node)], bounds or {}),
        )
        for node in definitions
        if id(node) in sums and (not isinstance(node, ast.ClassDef) or len(parts[id(node)]) > 1)
    ]
    return tuple(sorted(costs, key=lambda cost: cost.line))


def _bound(rows: list[LineReport], bounds: Mapping[int, str]) -> str:
    votes: Counter[str] = Counter()
    for row in rows:
        votes[bounds.get(row.line, "")] += row.self_ms  # type: ignore[assignment]
    bound, ms = votes.most_common(1)[0]
    return bound if ms > votes.total() / 2 else ""
