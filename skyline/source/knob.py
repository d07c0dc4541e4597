"""A place in the source with a value that can be read and rewritten."""

from __future__ import annotations

from dataclasses import field
from enum import Enum
from pathlib import PurePath

from skyline.lazy_dataclass import dataclass
from skyline.source.text import SourceSpan


@dataclass(frozen=True, slots=True)
class SettingPlace:
    """One value in a file: ``line`` from 1, ``key`` with its sections (``train.batch_size``), ``text`` as written.

    ``column`` counts characters from 0.
    """

    file: str
    line: int
    key: str
    text: str
    column: int = field(default=0, compare=False)

    @property
    def words(self) -> str:
        """The place as text for the user: ``config.yaml, line 5 (`train.batch_size: 16`)``."""
        return f"{PurePath(self.file).name}, line {self.line} (`{self.key}: {self.text}`)"


class KnobKind(str, Enum):
    """The kind of place that holds the value; the words are displayed to the user."""

    CALL_ARGUMENT = "call argument"
    CONSTANT = "constant"
    PARAMETER_DEFAULT = "parameter default"
    ARGPARSE_DEFAULT = "argparse default"
    DATACLASS_FIELD = "dataclass field"
    DICT_ENTRY = "dict entry"
    COMMAND_LINE = "command line"
    SETTING = "setting"


DEFAULTS = (KnobKind.PARAMETER_DEFAULT, KnobKind.ARGPARSE_DEFAULT, KnobKind.DATACLASS_FIELD)
"""Kinds of places that hold for a run only if nothing else sets the value."""


@dataclass(frozen=True, slots=True)
class ConfiguredSetting:
    """The places in settings files that hold the value of a setting that the run showed, best first.

    ``name`` is the name of the what-if that changes it.
    """

    name: str
    value: int
    places: tuple[SettingPlace, ...]


@dataclass(frozen=True, slots=True)
class Knob:
    """One integer literal, or arithmetic of literals, that sets the batch size.

    ``span`` and ``text`` are the literal itself (``text`` as written: ``1_024``, ``0x40``, ``2**9``). ``name`` is its
    variable, field, option or keyword. ``trail`` lists the steps that lead to it, nearest use first
    (``DataLoader(batch_size=args.batch_size)`` -> ``--batch-size``). The user's own arguments override a COMMAND_LINE
    knob: ``span`` is the overridden literal, ``argument_index`` the effective argv entry.
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
    """The result of the search for the batch size: candidates, best first, and a description of the search.

    ``refusal`` is the reason why the best candidate must not be rewritten (it is computed, or something else uses it
    too); empty if it may. ``refusals`` holds the reasons of all candidates in their order.
    """

    candidates: tuple[Knob, ...]
    tried: tuple[str, ...] = ()
    refusal: str = ""
    refusals: tuple[str, ...] = ()

    @property
    def best(self) -> Knob | None:
        """The most likely candidate, if there is one."""
        return self.candidates[0] if self.candidates else None

    def refusal_of(self, knob: Knob) -> str:
        """The reason why a candidate must not be rewritten; empty if it may."""
        if self.candidates[:1] == (knob,):
            return self.refusal
        reasons = dict(zip(self.candidates, self.refusals, strict=False))
        return reasons.get(knob, "")

    def with_first(self, knob: Knob) -> KnobSearch:
        """The search result with a further candidate, which may be rewritten, before all others."""
        refusals = ("", *(self.refusal_of(each) for each in self.candidates))
        return KnobSearch((knob, *self.candidates), self.tried, "", refusals)

    def preferring(self, first: tuple[Knob, ...]) -> KnobSearch:
        """The search result with these candidates moved to the front."""
        rest = tuple(knob for knob in self.candidates if knob not in first)
        ordered = (*first, *rest)
        refusals = tuple(self.refusal_of(knob) for knob in ordered)
        return KnobSearch(ordered, self.tried, refusals[0] if refusals else "", refusals)
