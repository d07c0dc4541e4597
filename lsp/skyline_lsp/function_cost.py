"""What a function's own lines take together."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass

from skyline.report.schema import LineReport


@dataclass(frozen=True, slots=True)
class FunctionCost:
    """A function with its cost per iteration; ``line`` is where its definition or first decorator is."""

    name: str
    line: int
    self_ms: float
    share: float


def function_costs(text: str, rows: Iterable[LineReport]) -> tuple[FunctionCost, ...]:
    """The functions of a source that the rows fall into, each row in the innermost one, in source order."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return ()
    functions = [node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    sums: dict[int, list[LineReport]] = {}
    for row in rows:
        around = [node for node in functions if node.lineno <= row.line <= (node.end_lineno or node.lineno)]
        if around:
            innermost = max(around, key=lambda node: node.lineno)
            sums.setdefault(id(innermost), []).append(row)
    costs = [
        FunctionCost(
            name=node.name,
            line=min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)]),
            self_ms=sum(row.self_ms for row in sums[id(node)]),
            share=sum(row.share for row in sums[id(node)]),
        )
        for node in functions
        if id(node) in sums
    ]
    return tuple(sorted(costs, key=lambda cost: cost.line))
