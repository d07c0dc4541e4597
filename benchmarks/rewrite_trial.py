"""One made-up script under every rewrite, alone and several together."""

from __future__ import annotations

import ast
import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

from rewrite_checks import Corrupted, Moves, check, undone
from source_variants import SCRIPT, Variant

from skyline.errors import SkylineError, UsageError
from skyline.rewrite.context import RewriteContext
from skyline.rewrite.plan import RewritePlan, carry_out
from skyline.rewrite.registry import entries
from skyline.source.batch_size import find
from skyline.source.edit import TextEdit
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
)
from skyline.trace.profile import CAPTURE_SCHEMA, BareTimes, Profile, SourceFile
from skyline.trace.record import CodeLine, Trace

VALUES = ("", "2", "64", "fp16", "bf16")
"""Tried in this order until one is a value that a rewrite takes."""
_CALLS = ("item", "print", "zero_grad", "backward", "to", "cuda", "clip_grad_norm_")
_TOLD: dict[str, dict[str, int | float | bool | str | None]] = {
    "zero_grad": {"set_to_none": False},
    "to": {"non_blocking": False, "copies": True},
    "cuda": {"non_blocking": False, "copies": True},
}
"""Calls that a run would tell of, and what it would tell."""
FURTHER_VALUES = {"amp": ("bf16", "fp16")}
_TAKEN_WRONG = ("is not a ", "whole number", "Give ")


@dataclass
class Outcomes:
    """What came of all variants: by rewrite and outcome, and the reasons of refusals."""

    variants: int = 0
    by_rewrite: dict[str, Counter[str]] = field(default_factory=dict)
    reasons: dict[str, Counter[str]] = field(default_factory=dict)
    together: Counter[str] = field(default_factory=Counter)
    corrupted: list[str] = field(default_factory=list)

    def add(self, other: Outcomes) -> None:
        """Count those of other scripts as well."""
        self.variants += other.variants
        for mine, theirs in ((self.by_rewrite, other.by_rewrite), (self.reasons, other.reasons)):
            for name, counts in theirs.items():
                mine.setdefault(name, Counter()).update(counts)
        self.together.update(other.together)
        self.corrupted += other.corrupted


def profile_of(source: SourceText, optimizer: str, lines: dict[str, int]) -> Profile:
    """What a run of a script on a GPU would tell, as far as rewrites ask."""

    def place(name: str) -> CodeLine | None:
        return CodeLine(SCRIPT, lines[name]) if name in lines else None

    def read(path: object) -> SourceText | None:
        return source if str(path) == SCRIPT else None

    times = BareTimes((10.0,), (1.0,), (3.0,), (1.0,))
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
        times=times,
        warmup_iterations=3,
        recorded_ms=(10.0,),
        trace=Trace((), (), (), ()),
        memory=MemoryFact(0, 0, 0, 0),
        peak_bytes=0,
        batch=BatchFact((16,), 16),
        knobs=find(source, (), read),
        batch_size=16,
        optimizers=(OptimizerFact(optimizer, 1, 2, 100, 0, {}, place("step"), place("optimizer")),),
        loaders=(LoaderFact(16, 0, 1000, 1.0, created_line=place("DataLoader")),),
        loop_line=place("loop"),
        modules=_modules(place),
        calls=tuple(
            CallFact(name, 1.0, place(name), _TOLD.get(name, {})) for name in _CALLS if name in lines
        ),
    )


def _modules(place: Callable[[str], CodeLine | None]) -> tuple[ModuleFact, ...]:
    """The model and, where it has them, its embedding and its first convolution."""
    net = ModuleFact("Net", "Net", False, 0, True, {}, class_line=place("__init__"), call_line=place("model"))
    words = {"num_embeddings": 50257, "embedding_dim": 64, "sparse": False, "padding_idx": None}
    pixels = {"in_channels": 3, "out_channels": 8, "kernel_size": (3, 3)}
    inner = (
        ("words", "Embedding", 50257 * 64, words),
        ("out", "Linear", 50257 * 64, {"in_features": 64, "out_features": 50257}),
        ("body.0", "Conv2d", 224, pixels),
    )
    return (
        net,
        *(
            ModuleFact(f"Net.{path}", name, True, count, True, dict(options), created_line=place(name))
            for path, name, count, options in inner
            if place(name) is not None
        ),
    )


class Trial:
    """One variant; what corrupts it is noted with the script, so that it can be tried again."""

    def __init__(self, variant: Variant, outcomes: Outcomes) -> None:
        self.variant = variant
        self.outcomes = outcomes
        profile = profile_of(variant.source, variant.optimizer, variant.lines)
        self.context = RewriteContext(profile, lambda path: _only(path, variant.source))

    def run(self, chooser: Random) -> None:
        """Every rewrite by itself, and one choice of several."""
        self.outcomes.variants += 1
        written = [pair for name in entries() for pair in self._alone(name)]
        names = list({name: None for name, _ in written})
        if len(names) > 1:
            chosen = chooser.sample(names, chooser.randint(2, min(4, len(names))))
            asked = [
                next(pair for pair in chooser.sample(written, len(written)) if pair[0] == name)
                for name in chosen
            ]
            self._together(asked)

    def _alone(self, name: str) -> list[tuple[str, str]]:
        """The values with which a rewrite changed the script."""
        done: list[tuple[str, str]] = []
        counts = self.outcomes.by_rewrite.setdefault(name, Counter())
        for value in FURTHER_VALUES.get(name, VALUES):
            planned = self._planned([(name, value)])
            if planned is None:
                counts["corrupted"] += 1
                break
            if planned.refused:
                reason = planned.refused[0].reason
                if (
                    name not in FURTHER_VALUES
                    and value != VALUES[-1]
                    and any(each in reason for each in (*_TAKEN_WRONG, f"{name}="))
                ):
                    continue
                counts["refused"] += 1
                self.outcomes.reasons.setdefault(name, Counter())[_general(reason)] += 1
            elif not planned.edits:
                counts["nothing to do"] += 1
            else:
                counts["rewritten"] += 1
                done.append((name, value))
            if name not in FURTHER_VALUES:
                break
        return done

    def _together(self, asked: Sequence[tuple[str, str]]) -> None:
        orders = list(itertools.islice(itertools.permutations(asked), 6))
        texts = {
            self._text(self._carried_out(order).edits)
            for order in (orders[0], orders[-1], orders[len(orders) // 2])
        }
        if len(texts) > 1:
            self._corrupted(asked, "the order in which changes are asked for changes the text")
            return
        planned = self._planned(asked)
        if planned is not None:
            self.outcomes.together["refused in part" if planned.refused else "rewritten"] += 1

    def _planned(self, asked: Sequence[tuple[str, str]]) -> RewritePlan | None:
        """The plan, checked; None where something was corrupted."""
        source = self.variant.source
        try:
            planned = self._carried_out(asked)
            if planned.edits:
                after = source.apply(planned.edits)
                check(source, after, planned.edits)
                if not undone(source, after, planned.edits):
                    raise Corrupted("it cannot be undone")
                again = self._again(
                    after, planned.edits, [pair for pair in asked if not _is_refused(planned, pair)]
                )
                if again:
                    raise Corrupted(f"a second time changes it again: {again[0]}")
        except (Corrupted, UsageError) as error:
            self._corrupted(asked, str(error))
            return None
        except SkylineError:
            raise
        except Exception as error:
            self._corrupted(asked, f"{type(error).__name__}: {error}")
            return None
        return planned

    def _again(
        self, after: SourceText, edits: Sequence[TextEdit], asked: Sequence[tuple[str, str]]
    ) -> tuple[TextEdit, ...]:
        source, moves = self.variant.source, Moves.of(self.variant.source, edits)

        def line(number: int) -> int:
            text = source.line(number)
            place = moves.moved(source.offset(number, len(text) - len(text.lstrip())))
            return number if place is None else after.position(place)[0]

        lines = {name: line(number) for name, number in self.variant.lines.items()}
        profile = profile_of(after, self.variant.optimizer, lines)
        return carry_out(RewriteContext(profile, lambda path: _only(path, after)), asked).edits

    def _carried_out(self, asked: Sequence[tuple[str, str]]) -> RewritePlan:
        return carry_out(self.context, asked)

    def _text(self, edits: Sequence[TextEdit]) -> str:
        return self.variant.source.apply(edits).text

    def _corrupted(self, asked: Sequence[tuple[str, str]], reason: str) -> None:
        names = ", ".join(f"{name}={value}" for name, value in asked)
        self.outcomes.corrupted.append(
            f"{names}: {reason}\n{ast.literal_eval(repr(self.variant.source.text))}"
        )


def _only(path: str, source: SourceText) -> SourceText:
    if path != SCRIPT:
        raise UsageError(f"{path} does not exist")
    return source


def _is_refused(planned: RewritePlan, pair: tuple[str, str]) -> bool:
    return any(refused.name == pair[0] for refused in planned.refused)


def _general(reason: str) -> str:
    """A reason without the names and numbers of one script."""
    parts = reason.split("`")
    words = "`…`".join(parts[::2]) if len(parts) > 1 else reason
    return (
        "".join("N" if character.isdigit() else character for character in words)
        .replace("NN", "N")
        .replace("NN", "N")
    )
