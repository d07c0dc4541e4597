"""Every constant of a model has a range and a source, and no script that sets one counts as unseen by its model."""

from __future__ import annotations

import ast
import pkgutil
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import skyline.whatif
from skyline.whatif.constant import Constant

REPOSITORY = Path(__file__).resolve().parents[3]
MOST_BARE = 119
"""Module-level numbers and ranges without a source: each one that becomes a ``Constant`` lowers the number."""


def modules() -> list[ModuleType]:
    walked = pkgutil.walk_packages(skyline.whatif.__path__, "skyline.whatif.")
    return [import_module(found.name) for found in walked]


def constants(value: object) -> Iterator[Constant]:
    if isinstance(value, Constant):
        yield value
    elif isinstance(value, dict):
        yield from constants(tuple(value.values()))
    elif isinstance(value, tuple):
        for one in value:
            yield from constants(one)


def own(module: ModuleType) -> dict[str, object]:
    """Names that the module itself binds, without those that it imports."""
    tree = ast.parse(Path(module.__file__ or "").read_text(encoding="utf-8"))
    bound = [node for node in tree.body if isinstance(node, ast.Assign | ast.AnnAssign)]
    targets = [
        target
        for node in bound
        for target in ([node.target] if isinstance(node, ast.AnnAssign) else node.targets)
    ]
    names = [name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)]
    return {name: getattr(module, name) for name in names}


ALL = [
    pytest.param(module.__name__.rpartition(".")[2], one, id=f"{module.__name__}.{name}")
    for module in modules()
    for name, value in own(module).items()
    for one in constants(value)
]


@pytest.mark.parametrize(("model", "constant"), ALL)
def test_each_has_a_source_and_a_range_around_its_value(model: str, constant: Constant) -> None:
    assert len(constant.source.split()) > 2
    assert constant.low <= constant.value <= constant.high
    for benchmark in re.findall(r"benchmarks/\w+\.py", constant.source):
        if (REPOSITORY / "benchmarks").exists():
            assert (REPOSITORY / benchmark).exists()
    if constant.set_on:
        assert constant.machine, "what is set on scripts is measured somewhere"


@pytest.mark.parametrize(("model", "constant"), ALL)
def test_no_script_that_sets_a_constant_is_unseen_by_its_model(model: str, constant: Constant) -> None:
    file = REPOSITORY / "benchmarks" / "held_out.toml"
    if not file.exists():
        pytest.skip("the benchmarks are not part of this source tree")
    tomllib = pytest.importorskip("tomllib")
    scripts = tomllib.loads(file.read_text(encoding="utf-8"))["script"]
    unseen = {one["path"] for one in scripts if model not in one["seen_by"]}
    assert not unseen.intersection(constant.set_on)


def test_constants_without_a_source_become_fewer() -> None:
    bare = [
        f"{module.__name__}.{name}"
        for module in modules()
        for name, value in own(module).items()
        if is_bare(value)
    ]
    assert len(bare) <= MOST_BARE, bare


def is_bare(value: object) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number or type(value).__name__ == "Interval"
