"""The settings of a sweep, and runs of the script with other values of them, without changing a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from skyline.capture.process import Starter
from skyline.capture.request import CaptureRequest
from skyline.errors import UsageError
from skyline.lazy_dataclass import dataclass
from skyline.source.number_place import Number, NumberPlace, chosen, names
from skyline.source.number_search import number_places
from skyline.source.text import SourceText, read_if_there
from skyline.sweep.values import Varied

_MOST_NAMES = 24


@dataclass(frozen=True, slots=True)
class SweptSetting:
    """A setting with the place that sets it, and the text of its file when the sweep began."""

    varied: Varied
    place: NumberPlace
    text: SourceText


def swept_settings(request: CaptureRequest, varied: Sequence[Varied]) -> tuple[SweptSetting, ...]:
    """The settings with their places.

    Raises:
        UsageError: a name is unknown or ambiguous, two names are one place, or the script is not Python.
    """
    script = SourceText.read(request.script.absolute())
    found: list[SweptSetting] = []
    for one in varied:
        places = number_places(script, request.arguments, read_if_there, one.name)
        place = chosen(one.asked, places, script.path)
        twin = next((other for other in found if other.place.span == place.span), None)
        if twin is not None:
            raise UsageError(
                f"{one.name} and {twin.varied.name} are the same setting: {place.words}",
                hint="Use only one of them.",
            )
        text = script if place.span.file == script.path else SourceText.read(place.span.file)
        found.append(SweptSetting(one, place, text))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class SweptScript:
    """The script of a sweep, the settings that vary, and the way its processes start."""

    request: CaptureRequest
    settings: tuple[SweptSetting, ...]
    starter: Starter

    def at(self, values: Sequence[Number]) -> CaptureRequest:
        """The run with these values, in the script's arguments or in texts that replace files."""
        request = self.request
        arguments = request.arguments
        texts: dict[str, SourceText] = {}
        edited: dict[str, list[tuple[SweptSetting, Number]]] = {}
        for setting, value in zip(self.settings, values, strict=True):
            changed = setting.place.arguments(value, arguments)
            if changed == arguments and not setting.place.flag and setting.place.argument_index is None:
                edited.setdefault(setting.text.path, []).append((setting, value))
            arguments = changed
        for path, changes in edited.items():
            text = changes[0][0].text
            texts[path] = text.apply([one.place.edit(value, text) for one, value in changes])
        overrides = tuple((path, text.text) for path, text in texts.items())
        return replace(request, arguments=arguments, source_overrides=(*request.source_overrides, *overrides))

    def words(self, values: Sequence[Number]) -> str:
        """``n_embd=64 n_layer=2``."""
        return " ".join(
            f"{one.varied.name}={value}" for one, value in zip(self.settings, values, strict=True)
        )


def settable_names(request: CaptureRequest) -> tuple[str, ...]:
    """The names of numbers that the script itself sets, options first; at most about one screen line."""
    script = SourceText.read(request.script.absolute())
    places = number_places(script, request.arguments, read_if_there)
    return names([one for one in places if one.span.file == script.path])[:_MOST_NAMES]
