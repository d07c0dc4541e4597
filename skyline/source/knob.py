"""A place in the source that holds a value which can be read and rewritten."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from skyline.source.span import SourceSpan


class KnobKind(str, Enum):
    """Where the value lives; the words are shown to the person."""

    CALL_ARGUMENT = "call argument"
    CONSTANT = "constant"
    PARAMETER_DEFAULT = "parameter default"
    ARGPARSE_DEFAULT = "argparse default"
    DATACLASS_FIELD = "dataclass field"
    DICT_ENTRY = "dict entry"
    COMMAND_LINE = "command line"


@dataclass(frozen=True, slots=True)
class Knob:
    """One integer literal that sets the batch size.

    ``span`` and ``text`` are the literal itself (``text`` as written: ``1_024``, ``0x40``); ``name`` is the
    variable, field, option or keyword it belongs to; ``trail`` tells how it was reached, nearest use first
    (``DataLoader(batch_size=args.batch_size)`` -> ``--batch-size``). A COMMAND_LINE knob is overridden by
    the person's own arguments: ``span`` is the literal it hides, ``argument_index`` the argv entry in force.
    """

    name: str
    value: int
    kind: KnobKind
    span: SourceSpan
    text: str
    trail: tuple[str, ...] = ()
    argument_index: int | None = None


@dataclass(frozen=True, slots=True)
class KnobSearch:
    """What looking for the batch size gave: candidates, best first, and in words what was tried.

    ``refusal`` is the reason why the best candidate must not be rewritten (it is computed, or shared with
    something else), empty where it may; ``refusals`` are the reasons of all candidates in their order.
    """

    candidates: tuple[Knob, ...]
    tried: tuple[str, ...] = ()
    refusal: str = ""
    refusals: tuple[str, ...] = ()

    @property
    def best(self) -> Knob | None:
        """The candidate to trust first, if there is one."""
        return self.candidates[0] if self.candidates else None

    def refusal_of(self, knob: Knob) -> str:
        """Why one of the candidates must not be rewritten, empty where it may."""
        if self.candidates[:1] == (knob,):
            return self.refusal
        reasons = dict(zip(self.candidates, self.refusals, strict=False))
        return reasons.get(knob, "")

    def preferring(self, first: tuple[Knob, ...]) -> KnobSearch:
        """The same candidates with these before the others."""
        rest = tuple(knob for knob in self.candidates if knob not in first)
        ordered = (*first, *rest)
        refusals = tuple(self.refusal_of(knob) for knob in ordered)
        return KnobSearch(ordered, self.tried, refusals[0] if refusals else "", refusals)
