"""What the person may set, under ``skyline.*`` in their editor."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypeVar

import msgspec

SECTION = "skyline"

Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Count = Annotated[int, msgspec.Meta(ge=1)]
Seconds = Annotated[float, msgspec.Meta(gt=0)]
OnSave = Literal["afterFirst", "always", "never"]

Section = TypeVar("Section")


@dataclass(frozen=True, slots=True)
class ProfileSettings:
    """How a script is run. ``on_save`` ``afterFirst``: what was profiled before.

    ``warm_start``: keep a process with torch imported, from which runs start without waiting for the import.
    """

    args: tuple[str, ...] = ()
    on_save: OnSave = "afterFirst"
    steps: Count = 8
    timeout_s: Seconds = 180.0
    warm_start: bool = True


@dataclass(frozen=True, slots=True)
class CodeLensSettings:
    """Lenses above the training loop, and above functions that take at least ``min_share`` of an iteration."""

    enable: bool = True
    min_share: Share = 0.05


@dataclass(frozen=True, slots=True)
class InlayHintSettings:
    """Times at the end of lines that take at least ``min_share`` of an iteration."""

    enable: bool = True
    min_share: Share = 0.01


@dataclass(frozen=True, slots=True)
class HoverSettings:
    """The full story of a line."""

    enable: bool = True


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything under ``skyline``; ``interpreter`` None: the one that runs the server.

    ``gpu``: predict for this GPU, which need not be here, instead of running the script.
    """

    interpreter: str | None = None
    gpu: str | None = None
    profile: ProfileSettings = field(default_factory=ProfileSettings)
    code_lens: CodeLensSettings = field(default_factory=CodeLensSettings)
    inlay_hints: InlayHintSettings = field(default_factory=InlayHintSettings)
    hover: HoverSettings = field(default_factory=HoverSettings)


@dataclass(frozen=True, slots=True)
class ParsedSettings:
    """Usable settings, and in words what could not be used."""

    settings: Settings
    problems: tuple[str, ...] = ()


def parse(value: object) -> ParsedSettings:
    """Settings from what an editor sent; a value that makes no sense is named and its default stands.

    Keys that are not ours are left alone: an extension keeps its own under the same section.
    """
    if isinstance(value, Mapping) and isinstance(value.get(SECTION), Mapping):
        value = value[SECTION]
    problems: list[str] = []
    settings = _section(Settings, value, SECTION, problems)
    return ParsedSettings(settings, tuple(problems))


def camel(name: str) -> str:
    """The key of a field as editors spell it: ``min_share`` is ``minShare``."""
    head, *rest = name.split("_")
    return head + "".join(part.upper() if len(part) == 1 else part.title() for part in rest)


def _section(kind: type[Section], value: object, where: str, problems: list[str]) -> Section:
    if value is None:
        return kind()
    if not isinstance(value, Mapping):
        problems.append(f"{where} must be an object, not {value!r}; the defaults are used")
        return kind()
    hints = typing.get_type_hints(kind, include_extras=True)
    given: dict[str, Any] = {}
    for entry in dataclasses.fields(typing.cast(Any, kind)):
        key = camel(entry.name)
        if value.get(key) is None:
            continue
        place = f"{where}.{key}"
        expected = hints[entry.name]
        if (
            isinstance(expected, type)
            and not isinstance(expected, types.GenericAlias)
            and dataclasses.is_dataclass(expected)
        ):
            given[entry.name] = _section(expected, value[key], place, problems)
            continue
        try:
            given[entry.name] = msgspec.convert(value[key], expected)
        except msgspec.ValidationError as error:
            problems.append(
                f"{place} is {value[key]!r}: {error}; the default {getattr(kind(), entry.name)!r} is used"
            )
    return kind(**given)
