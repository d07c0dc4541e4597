"""One made-up script under every rewrite, alone and several together."""

from __future__ import annotations

import ast
import itertools
from collections import Counter
from collections.abc import Sequence
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
from skyline.trace.facts import BatchFact, Device, Environment, LoaderFact, MemoryFact, OptimizerFact
from skyline.trace.profile import CAPTURE_SCHEMA, BareTimes, Profile, SourceFile
from skyline.trace.record import CodeLine, Trace

VALUES = ("", "2", "64", "bf16")
"""Tried in this order until one is a value that a rewrite takes."""
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
        self.variants += other.variants
        for mine, theirs in ((self.by_rewrite, other.by_rewrite), (self.reasons, other.reasons)):
            for name, counts in theirs.items():
                mine.setdefault(name, Counter()).update(counts)
        self.together.update(other.together)
        self.corrupted += other.corrupted


def profile_of(
    source: SourceText, loader: int | None, optimizer: tuple[str, int | None], loop: int | None
) -> Profile:
    """What a run of a script on a GPU would tell, as far as rewrites ask."""

    def place(line: int | None) -> CodeLine | None:
        return None if line is None else CodeLine(SCRIPT, line)

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
        optimizers=(OptimizerFact(optimizer[0], 1, 2, 100, 0, {}, None, place(optimizer[1])),),
        loaders=(LoaderFact(16, 0, 1000, 1.0, created_line=place(loader)),),
        loop_line=place(loop),
    )


class Trial:
    """One variant; what corrupts it is noted with the script, so that it can be tried again."""

    def __init__(self, variant: Variant, outcomes: Outcomes) -> None:
        self.variant = variant
        self.outcomes = outcomes
        profile = profile_of(
            variant.source,
            variant.loader_line,
            (variant.optimizer, variant.optimizer_line),
            variant.loop_line,
        )
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
                    and any(each in reason for each in _TAKEN_WRONG)
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

        def line(number: int | None) -> int | None:
            if number is None:
                return None
            text = source.line(number)
            place = moves.moved(source.offset(number, len(text) - len(text.lstrip())))
            return number if place is None else after.position(place)[0]

        variant = self.variant
        profile = profile_of(
            after,
            line(variant.loader_line),
            (variant.optimizer, line(variant.optimizer_line)),
            line(variant.loop_line),
        )
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
