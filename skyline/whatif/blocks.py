"""The repeated blocks of a model: consecutive layers of one class that its forward pass goes through."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from skyline.lazy_dataclass import dataclass
from skyline.trace.facts import ModuleFact
from skyline.trace.profile import Profile

_CONTAINERS = {"Sequential", "ModuleList", "ModuleDict"}
_NUMBERED = re.compile(r"(?:(\w*[A-Za-z])_)?(\d+)")
"""The numbered end of a path: ``blocks.0``, or ``Block_0`` in traces, which name modules by their class."""


@dataclass(frozen=True, slots=True)
class Blocks:
    """Blocks by their paths, as ``Trace.modules`` has them, in the order of the model.

    ``checkpointed`` are the blocks that the backward pass already recomputes; ``class_name`` is empty if
    unknown.
    """

    paths: tuple[str, ...]
    checkpointed: tuple[str, ...] = ()
    class_name: str = ""


def repeated_blocks(profile: Profile | None, modules: Sequence[str]) -> tuple[Blocks, ...]:
    """The outermost groups of at least two blocks; ``modules`` are the paths that the graph knows.

    A block contains further modules, and the forward pass calls it once for each micro-batch. Without a
    profile, or in a profile of an earlier version, only the paths identify blocks.
    """
    facts = () if profile is None else profile.modules
    if profile is not None and facts:
        rounds = max(1, profile.batch.micro_batches)
        return _of_facts(facts, set(modules), rounds)
    return _of_paths(modules)


def open_blocks(profile: Profile | None, modules: Sequence[str]) -> tuple[str, ...]:
    """The repeated blocks that are not checkpointed yet, group by group in the order of the model."""
    return tuple(
        path
        for blocks in repeated_blocks(profile, modules)
        for path in blocks.paths
        if path not in blocks.checkpointed
    )


def _of_facts(facts: Sequence[ModuleFact], recorded: set[str], rounds: int) -> tuple[Blocks, ...]:
    holding = _holding([fact.path for fact in facts])
    groups: dict[tuple[str, str], list[ModuleFact]] = {}
    for fact in facts:
        called = round(fact.calls_per_iteration)
        plain = called == rounds or (fact.checkpointed and called >= rounds)
        if fact.path in holding and fact.class_name not in _CONTAINERS and plain and fact.path in recorded:
            parent = fact.path.rpartition(".")[0]
            groups.setdefault((parent, fact.class_name), []).append(fact)
    found = [
        Blocks(
            tuple(fact.path for fact in members),
            tuple(fact.path for fact in members if fact.checkpointed),
            class_name,
        )
        for (_, class_name), members in groups.items()
        if len(members) > 1
    ]
    return _outermost(found)


def _of_paths(modules: Sequence[str]) -> tuple[Blocks, ...]:
    # Only layers with operators of their own are listed; their parents are part of the paths.
    known = dict.fromkeys(
        ".".join(parts[:depth])
        for parts in (path.split(".") for path in modules)
        for depth in range(1, len(parts) + 1)
    )
    holding = _holding(known)
    groups: dict[tuple[str, str], list[str]] = {}
    for path in known:
        parent, _, last = path.rpartition(".")
        match = _NUMBERED.fullmatch(last)
        if match is not None and parent and path in holding and match[1] not in _CONTAINERS:
            groups.setdefault((parent, match[1] or ""), []).append(path)
    return _outermost([Blocks(tuple(members)) for members in groups.values() if len(members) > 1])


def _holding(paths: Iterable[str]) -> set[str]:
    """The paths that have other paths below them."""
    return {
        ".".join(parts[:depth])
        for parts in (path.split(".") for path in paths)
        for depth in range(1, len(parts))
    }


def _outermost(found: Sequence[Blocks]) -> tuple[Blocks, ...]:
    everything = [path for blocks in found for path in blocks.paths]
    return tuple(
        blocks for blocks in found if not any(blocks.paths[0].startswith(f"{other}.") for other in everything)
    )
