"""Checks if Skyline finds and correctly changes the batch size of one script of the corpus.

The reference is the number that a person read in the source, not the number that Skyline reports. The change is made
as by ``skyline apply``, but in memory, so no file of the script is touched. It is right if one number differs and a
second run shows the new size.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from skyline.analysis.analyse import Analysis
from skyline.capture.request import CaptureRequest
from skyline.capture.session import capture
from skyline.errors import SkylineError
from skyline.report.cells import CellPlaces
from skyline.source.cells import cell_line, is_notebook
from skyline.source.knob import KnobKind
from skyline.source.text import SourceText
from skyline.trace.batch_place import batch_place
from skyline.trace.profile import Profile
from skyline.verification.change import Change, change
from skyline.whatif.question import Question

_NUMBER = re.compile(r"\d[\d_]*")


def batch_outcome(analysis: Analysis, request: CaptureRequest, size: int | None) -> dict[str, object]:
    """``found`` and ``rewritten`` (right, refused or wrong) for a script whose batch size is ``size`` by its source.

    ``rewritten`` is empty if the size was not found. The result is empty if ``size`` is None. If ``size`` is 0, for a
    script without a batch size, it has only the number that Skyline takes for one.
    """
    if size is None:
        return {}
    profile = analysis.profile
    outcome: dict[str, object] = {"size": size, "seen": profile.batch_size, "place": _place(profile)}
    if size == 0:
        return outcome
    best = profile.knobs.best
    held = batch_place(profile).setting is not None or (best is not None and best.value == size)
    found = profile.batch_size == size and held
    outcome["found"] = found
    if not found:
        said = CellPlaces.of(profile.sources).told(batch_place(profile).reason)
        return outcome | {"rewritten": "", "said": said}
    rewritten, said = _rewritten(analysis, request, other_size(size))
    return outcome | {"rewritten": rewritten, "said": said}


def other_size(size: int) -> int:
    """The size to ask for: half of ``size``, or twice a small one."""
    return size * 2 if size < 4 else size // 2


def _rewritten(analysis: Analysis, request: CaptureRequest, wanted: int) -> tuple[str, str]:
    try:
        changed = change(analysis, Question(wanted), request.arguments)
    except SkylineError as error:
        return "refused", str(error).replace("\n", " ")
    if numbers_changed(changed, request.arguments) != 1:
        return "wrong", f"more than one number differs: {changed.diff}"
    quick = replace(
        changed.over(request),
        steps=4,
        settle_s=0.1,
        recorded=1,
        batch_points=0,
        budget_s=0.0,
        trials=False,
    )
    try:
        shown = capture(quick, progress=lambda _: None).batch_size
    except SkylineError as error:
        message = str(error).replace("\n", " ")
        return "wrong", f"the changed script could not be profiled: {message}"
    return ("right", "") if shown == wanted else ("wrong", f"asked for {wanted}, the run showed {shown}")


def numbers_changed(changed: Change, arguments: tuple[str, ...]) -> int:
    """The number of numbers that a change replaces in texts and arguments. -1 if it changes anything else."""
    pairs = [(SourceText.read(path).text, text) for path, text in changed.texts]
    pairs += zip(arguments, changed.arguments, strict=True)
    if any(_NUMBER.sub("0", before) != _NUMBER.sub("0", after) for before, after in pairs):
        return -1
    return sum(
        old != new
        for before, after in pairs
        for old, new in zip(_NUMBER.findall(before), _NUMBER.findall(after), strict=True)
    )


def _place(profile: Profile) -> str:
    place = batch_place(profile)
    if place.setting is not None:
        return f"{Path(place.setting.file).name}:{place.setting.line}"
    if place.knob is None:
        return ""
    if place.knob.kind is KnobKind.COMMAND_LINE:
        return "command line"
    span = place.knob.span
    if is_notebook(span.file) and (cell := cell_line(SourceText.read(span.file).text, span.line)):
        return str(cell)
    return f"{Path(span.file).name}:{span.line}"
