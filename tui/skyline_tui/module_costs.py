"""The cost of each module of the model, and the lines that it consists of."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from skyline.report.schema import LineReport

WHOLE = ""
"""The path of the root."""


@dataclass(slots=True)
class ModuleCost:
    """A module including its submodules, in ms per iteration; ``own_ms`` excludes the submodules."""

    path: str
    total_ms: float = 0.0
    own_ms: float = 0.0
    inside: dict[str, ModuleCost] = field(default_factory=dict[str, "ModuleCost"])

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition(".")[2]

    def by_cost(self) -> list[ModuleCost]:
        """The direct submodules, highest cost first."""
        return sorted(self.inside.values(), key=lambda one: -one.total_ms)


def module_costs(lines: Iterable[LineReport]) -> ModuleCost:
    """The tree of all modules with lines; its root is the whole iteration."""
    root = ModuleCost(WHOLE)
    for line in lines:
        left = line.self_ms
        for part in line.parts:
            _add(root, part.module, part.self_ms)
            left -= part.self_ms
        if left > 0:
            _add(root, line.module, left)
    return root


def share_in(line: LineReport, path: str) -> float:
    """The time, in ms, that a line spends inside a module."""
    if path == WHOLE:
        return line.self_ms
    known = sum(part.self_ms for part in line.parts)
    inside = sum(part.self_ms for part in line.parts if _is_in(part.module, path))
    return inside + (max(0.0, line.self_ms - known) if _is_in(line.module, path) else 0.0)


def _add(root: ModuleCost, path: str, time_ms: float) -> None:
    node = root
    node.total_ms += time_ms
    names = path.split(".") if path else []
    for depth, name in enumerate(names, 1):
        node = node.inside.setdefault(name, ModuleCost(".".join(names[:depth])))
        node.total_ms += time_ms
    node.own_ms += time_ms


def _is_in(module: str, path: str) -> bool:
    return module == path or module.startswith(path + ".")
