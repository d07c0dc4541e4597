"""Tries every rewrite on one generated script, alone and several together."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from random import Random

from rewrite_blocks import check_blocks
from rewrite_checks import Corrupted, Moves, check, undone
from rewrite_targets import check_keywords, check_targets
from source_reading import read
from source_variants import SCRIPT, Variant
from variant_run import profile_of

from skyline.errors import SkylineError, UsageError
from skyline.rewrite.context import RewriteContext
from skyline.rewrite.joint_edits import RewritePlan, carry_out
from skyline.rewrite.registry import entries
from skyline.rewrite.removal import present, taken_out
from skyline.source.text import SourceText, TextEdit
from skyline.trace.facts import BatchFact

Asked = Sequence[tuple[str, str]]

_VALUES = {
    "amp": ("bf16", "fp16"),
    "batch_size": ("64",),
    "checkpoint_every": ("500",),
    "checkpointing": ("all", "1"),
    "cpu_threads": ("2",),
    "data_parallel": ("2",),
    "ddp_bucket": ("64",),
    "ddp_compression": ("fp16",),
    "embedding_factorization": ("8",),
    "fuse_jobs": ("2",),
    "fused_optimizer": ("", "foreach"),
    "grad_accumulation": ("2",),
    "kronecker": ("4", "2:0.01"),
    "low_rank": ("8",),
    "num_workers": ("2",),
    "pad_to_multiple": ("64",),
    "prefetch_factor": ("4",),
    "prune": ("0.3",),
    "remove_sync": ("", "100"),
}
"""Values for each rewrite, if its name alone does not give one."""
_TORCH = re.compile(r"(?:\A|(?<=[\r\n]))import torch(\r\n|\r|\n)")
_UNSURE = ("would not be valid Python", "Two changes would touch the same text")
"""Refusals that show that a rewrite did not understand the code. A single rewrite must never cause them."""


@dataclass
class Outcomes:
    """Results of all variants: by rewrite and outcome, and the reasons of refusals."""

    variants: int = 0
    by_rewrite: dict[str, Counter[str]] = field(default_factory=dict[str, Counter[str]])
    reasons: dict[str, Counter[str]] = field(default_factory=dict[str, Counter[str]])
    together: Counter[str] = field(default_factory=Counter[str])
    corrupted: list[str] = field(default_factory=list[str])

    def add(self, other: Outcomes) -> None:
        """Add the outcomes of other scripts."""
        self.variants += other.variants
        for mine, theirs in ((self.by_rewrite, other.by_rewrite), (self.reasons, other.reasons)):
            for name, counts in theirs.items():
                mine.setdefault(name, Counter()).update(counts)
        self.together.update(other.together)
        self.corrupted += other.corrupted


@dataclass(frozen=True)
class _State:
    """A state of a script: its text, and the places whose lines a run would report."""

    source: SourceText
    places: dict[str, int]

    def after(self, edits: Sequence[TextEdit]) -> _State:
        """The script after edits."""
        made, moves = self.source.apply(edits), Moves.of(self.source.text, edits)
        return _State(made, {name: self._moved(place, moves) for name, place in self.places.items()})

    def _moved(self, place: int, moves: Moves) -> int:
        """The new offset of a place, or of the next place in its line that was not replaced."""
        line, _ = self.source.position(place)
        for offset in range(place, self.source.offset(line, 0) + len(self.source.line(line))):
            now = None if self.source.text[offset].isspace() else moves.moved(offset)
            if now is not None:
                return now
        return place


class Trial:
    """One variant. A corruption is recorded with the number of the script, so that it can be tried again."""

    def __init__(self, variant: Variant, outcomes: Outcomes) -> None:
        self.variant = variant
        self.outcomes = outcomes
        self.start = _State(variant.source, variant.places)
        self.context = self._context(self.start, [("batch_size", "")])

    def run(self, chooser: Random) -> None:
        """Try every rewrite alone, and one random combination."""
        self.outcomes.variants += 1
        written = [pair for name in entries() for pair in self._alone(name)]
        names = list({name: None for name, _ in written})
        if len(names) > 1:
            chosen = chooser.sample(names, chooser.randint(2, min(4, len(names))))
            several = [chooser.choice([pair for pair in written if pair[0] == name]) for name in chosen]
            self._together(several, chooser)

    def _alone(self, name: str) -> list[tuple[str, str]]:
        """The values with which a rewrite changed the script. The rewrite counts once, by its best outcome."""
        done: list[tuple[str, str]] = []
        came: list[str] = []
        for value in _VALUES.get(name, ("",)):
            planned = self._planned([(name, value)])
            if planned is None:
                came.append("corrupted")
            elif planned.refused:
                came.append("refused")
                self.outcomes.reasons.setdefault(name, Counter())[_general(planned.refused[0].reason)] += 1
            elif planned.edits:
                came.append("rewritten")
                done.append((name, value))
            else:
                came.append("nothing to do")
        order = ("corrupted", "rewritten", "nothing to do", "refused")
        self.outcomes.by_rewrite.setdefault(name, Counter())[min(came, key=order.index)] += 1
        return done

    def _together(self, asked: Asked, chooser: Random) -> None:
        planned = self._planned(asked)
        if planned is None:
            return
        self.outcomes.together["refused in part" if planned.refused else "rewritten"] += 1
        try:
            for order in (list(reversed(asked)), chooser.sample(list(asked), len(asked))):
                if self._text(carry_out(self.context, order).edits) != self._text(planned.edits):
                    raise Corrupted("the text depends on the order of the changes")
            if not planned.refused and self._one_by_one(asked) != self._text(planned.edits):
                raise Corrupted("the changes give another text if each is saved before the next")
        except Corrupted as error:
            self._corrupted(asked, str(error))

    def _one_by_one(self, asked: Asked) -> str:
        """The text if the changes are made one after another, in the order of the catalogue."""
        order, state, done = list(entries()), self.start, list[tuple[str, str]]()
        for pair in sorted(asked, key=lambda pair: order.index(pair[0])):
            state = state.after(carry_out(self._context(state, [pair], done), [pair]).edits)
            done.append(pair)
        return state.source.text

    def _planned(self, asked: Asked) -> RewritePlan | None:
        """The checked plan. None if something was corrupted."""
        source = self.variant.source
        try:
            planned = carry_out(self.context, asked)
            self._check_refusals(planned, asked)
            if planned.edits:
                after = self.start.after(planned.edits)
                mapped = check(source, after.source, planned.edits)
                old, new, called = read(source.text), read(after.source.text), self.variant.names
                check_blocks(old, new, mapped, called)
                check_keywords(old, new, called)
                carried_out = [pair for pair in asked if not _is_refused(planned, pair)]
                check_targets(source.text, planned.edits, [name for name, _ in carried_out])
                if not undone(source, after.source, planned.edits):
                    raise Corrupted("the change cannot be undone")
                again = carry_out(self._context(after, carried_out, carried_out), carried_out)
                if again.edits:
                    raise Corrupted(f"the same rewrite changes the script again: {again.edits[0]}")
                if again.refused:
                    raise Corrupted(f"the same rewrite is refused in a second run: {again.refused[0].reason}")
                if len(asked) == 1 and not planned.refused:
                    self._check_taken_out(after, planned, asked)
        except (Corrupted, UsageError) as error:
            self._corrupted(asked, str(error))
            return None
        except SkylineError:
            raise
        except Exception as error:
            self._corrupted(asked, f"{type(error).__name__}: {error}")
            return None
        return planned

    def _check_taken_out(self, after: _State, planned: RewritePlan, asked: Asked) -> None:
        """Check that removing a change restores the script, if nothing was overwritten."""
        ((name, _),) = asked
        if entries()[name].remove is None or present(self.context, name) is not None:
            return
        made = self._context(after, asked, asked)
        if present(made, name) is None:
            raise Corrupted("the change is not found in the code that it was written into")
        back = taken_out(made, [name])
        if any(edit.old_text.strip() for edit in planned.edits):
            return
        if back.refused:
            raise Corrupted(f"the change cannot be removed: {back.refused[0].reason}")
        left = after.source.apply(back.edits).text
        if _without_idle(left) != _without_idle(self.variant.source.text):
            raise Corrupted("removing the change does not restore the script")

    @staticmethod
    def _check_refusals(planned: RewritePlan, asked: Asked) -> None:
        for refused in planned.refused:
            if not refused.reason.strip().endswith("."):
                raise Corrupted(f"a refusal is not a whole sentence: {refused.reason!r}")
            if len(asked) == 1 and (planned.edits or any(each in refused.reason for each in _UNSURE)):
                raise Corrupted(f"the change was refused only after it was made: {refused.reason}")

    def _context(self, state: _State, asked: Asked, done: Asked = ()) -> RewriteContext:
        """The input of the rewrites, after other rewrites were made and the script was run again."""
        workers = next((int(value) for name, value in done if name == "num_workers"), None)
        knobs = any(name == "batch_size" for name, _ in asked)
        profile = profile_of(self.variant, state.source, state.places, workers=workers, with_knobs=knobs)
        sizes = [int(value) for name, value in done if name == "batch_size"]
        if sizes:
            seen = BatchFact((sizes[-1],), sizes[-1])
            profile = replace(profile, batch_size=sizes[-1], batch=seen)
        return RewriteContext(profile, lambda path: _only(path, state.source))

    def _text(self, edits: Sequence[TextEdit]) -> str:
        return self.variant.source.apply(edits).text

    def _corrupted(self, asked: Asked, reason: str) -> None:
        names = ", ".join(f"{name}={value}" for name, value in asked)
        self.outcomes.corrupted.append(
            f"{names}: {reason} (script {self.variant.number})\n{self.variant.source.text!r}"
        )


def _without_idle(text: str) -> str:
    """A text without parts that may differ: an unused ``import torch``, and a comma before the last comment."""
    return _TORCH.sub("", text, count=1).replace(",  #", "  #")


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
