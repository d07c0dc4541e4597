"""Cost of the functions and classes of a source file."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from skyline.report.schema import LineReport

_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True, slots=True)
class FunctionCost:
    """A function or class with its cost per iteration. ``line`` is that of its definition or first decorator.

    A function's cost excludes the functions nested in it. A class's cost includes all its methods. ``bound`` is the
    bottleneck of most of that time, empty if unknown.
    """

    name: str
    line: int
    self_ms: float
    share: float
    bound: str = ""


def function_costs(
    text: str, rows: Iterable[LineReport], bounds: Mapping[int, str] | None = None
) -> tuple[FunctionCost, ...]:
    """The functions and classes that contain the rows, in source order.

    A class with cost in one method only is left out, because its cost equals that method's. ``bounds`` has the
    bottleneck of each line.
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
