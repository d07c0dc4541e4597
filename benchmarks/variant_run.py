"""The facts that a profile of a generated script would have, as far as rewrites need them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from source_model import BLOCKS, VOCABULARY, WIDTH, Parts
from source_training import Told
from source_variants import SCRIPT, Variant

from skyline.source.batch_size import find
from skyline.source.text import SourceText
from skyline.trace.facts import (
    BatchFact,
    CallFact,
    Device,
    Environment,
    LoaderFact,
    MemoryFact,
    ModuleFact,
    OptimizerFact,
    ParallelFact,
)
from skyline.trace.profile import CAPTURE_SCHEMA, BareTimes, Profile, SourceFile
from skyline.trace.record import CodeLine, IterationMark, OperatorShape, Phase, Record, RecordKind, Trace

_CALLS = ("item", "print", "zero_grad", "backward", "to", "cuda", "clip_grad_norm_")
_OPTIONS: dict[str, dict[str, int | float | bool | str | None]] = {
    "zero_grad": {"set_to_none": False},
    "to": {"non_blocking": False, "copies": True},
    "cuda": {"non_blocking": False, "copies": True},
}
"""Calls that a run would report, with the reported facts."""

Place = Callable[[str], CodeLine | None]


def profile_of(
    variant: Variant,
    source: SourceText,
    places: Mapping[str, int],
    *,
    workers: int | None = None,
    with_knobs: bool = True,
) -> Profile:
    """The profile of a run on a GPU. ``source`` and ``places`` are from the variant, or from the result of a rewrite.

    ``workers`` is the number of loader workers if a rewrite changed it. The place of the batch size is searched for
    only ``with_knobs``, because the search takes long and only one rewrite needs it.
    """

    def place(name: str) -> CodeLine | None:
        return CodeLine(SCRIPT, source.position(places[name])[0]) if name in places else None

    def read(path: object) -> SourceText | None:
        return source if str(path) == SCRIPT else None

    told = variant.told
    workers = told.workers if workers is None else workers
    modules = _modules(variant.parts, told, place)
    optimizer = OptimizerFact(variant.optimizer, 1, 2, 100, 0, {}, place("step"), place("optimizer made"))
    return Profile(
        schema=CAPTURE_SCHEMA,
        id="variant",
        created="2026-01-01T00:00:00+00:00",
        script=SCRIPT,
        arguments=(),
        working_directory="/project",
        interpreter="/usr/bin/python3",
        environment=Environment(Device("GPU", "cuda"), "3.11.2", "2.6.0", "linux", 8, 4, 1 << 34),
        sources=(SourceFile(SCRIPT, "", source.text),),
        times=BareTimes((10.0,), (1.0,), (3.0,), (1.0,)),
        warmup_iterations=3,
        recorded_ms=(10.0,),
        trace=_trace(modules, told, place),
        memory=MemoryFact(0, 0, 0, 0),
        peak_bytes=0,
        batch=BatchFact((16,), 16),
        knobs=find(source, (), read) if with_knobs else (),
        batch_size=16,
        optimizers=(optimizer,),
        loaders=(LoaderFact(16, workers, 1000, 1.0, created_line=place("loader made")),),
        loop_line=place("loop"),
        modules=modules,
        parallel=_parallel(place("wrapper made"), told) if told.wrapped else None,
        calls=_calls(told, place),
    )


def _calls(told: Told, place: Place) -> tuple[CallFact, ...]:
    found = [CallFact(name, 1.0, place(name), _OPTIONS.get(name, {})) for name in _CALLS if place(name)]
    if told.evaluates and place("eval forward") is not None:
        options: dict[str, int | float | bool | str | None] = {"grad_enabled": told.records_gradients}
        found.append(CallFact("eval forward", 0.1, place("eval forward"), options))
    return tuple(found)


def _parallel(created: CodeLine | None, told: Told) -> ParallelFact:
    return ParallelFact(
        "DistributedDataParallel", told.backend, 2, 25.0, False, False, False, created_line=created
    )


def _modules(parts: Parts, told: Told, place: Place) -> tuple[ModuleFact, ...]:
    """The model with all its modules."""
    root = "DistributedDataParallel.module" if told.wrapped else "Net"
    found: list[ModuleFact] = []
    if told.wrapped:
        found.append(ModuleFact("DistributedDataParallel", "DistributedDataParallel", True, 0, True, {}))
    found.append(
        ModuleFact(root, "Net", False, 0, True, {}, class_line=place("forward Net"), call_line=place("model"))
    )

    def layer(path: str, name: str, count: int, made: str = "", **options: int | bool | None) -> None:
        created = place(made) if made else None
        found.append(ModuleFact(f"{root}.{path}", name, True, count, True, options, created_line=created))

    if parts.embedding:
        size = VOCABULARY * WIDTH
        options = {"num_embeddings": VOCABULARY, "embedding_dim": WIDTH, "sparse": False}
        layer("words", parts.embedding, size, "self.words made", **options)
        if parts.output:
            layer("out", "Linear", size, "self.out made", in_features=WIDTH, out_features=VOCABULARY)
    if parts.convolution:
        layer("body", "Sequential", 0)
        layer("body.0", "Conv2d", 224, "self.body made", in_channels=3, out_channels=8)
    if parts.blocks:
        names = ("first", "second")
        if parts.blocks != "named":
            layer("blocks", "ModuleList" if parts.blocks == "list" else "Sequential", 0)
            names = tuple(f"blocks.{number}" for number in range(BLOCKS))
        for name in names:
            line = place("forward Block")
            found.append(ModuleFact(f"{root}.{name}", "Block", False, 0, True, {}, class_line=line))
            layer(f"{name}.fc", "Linear", WIDTH * WIDTH, in_features=WIDTH, out_features=WIDTH)
    return tuple(found)


def _trace(modules: tuple[ModuleFact, ...], told: Told, place: Place) -> Trace:
    """One iteration: the lookups in embeddings, and the line of the softmax if the run showed it."""
    paths = tuple(each.path for each in modules)
    lines: list[CodeLine] = []
    shapes: list[OperatorShape] = []
    records: list[Record] = []

    def add(name: str, shape: tuple[tuple[int, ...], ...], line: int, module: int) -> None:
        shapes.append(OperatorShape(name, shape, ("float32",) * len(shape)))
        start = 10.0 * len(records)
        records.append(
            Record(
                name,
                RecordKind.OPERATOR,
                Phase.FORWARD,
                "main",
                0,
                start,
                10.0,
                line=line,
                module=module,
                shape=len(shapes) - 1,
            )
        )

    for at, each in enumerate(modules):
        if each.class_name in ("Embedding", "EmbeddingBag"):
            add("aten::embedding", ((VOCABULARY, WIDTH), (16, 8)), -1, at)
    softmax = place("softmax") or place("self.softmax")
    if told.seen_softmax and softmax is not None:
        lines.append(softmax)
        add("aten::softmax", ((16, 4, 8, 8),), 0, -1)
    mark = IterationMark(0, 0.0, 10.0 * max(1, len(records)))
    return Trace((mark,), tuple(lines), paths, tuple(records), (), tuple(shapes))
