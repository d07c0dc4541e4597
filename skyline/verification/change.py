"""The change to measure: the edits of the rewrite, applied to texts in memory."""

from __future__ import annotations

import os
from dataclasses import replace

from skyline.analysis.analyse import Analysis
from skyline.capture.request import CaptureRequest
from skyline.errors import RewriteRefused, SkylineError, UsageError
from skyline.lazy_dataclass import dataclass
from skyline.rewrite.context import RewriteContext, as_profiled
from skyline.rewrite.joint_edits import RewritePlan, diff, plan
from skyline.rewrite.removal import removals
from skyline.source.batch_size import with_argument
from skyline.source.knob import KnobKind
from skyline.source.settings_file import still_holds
from skyline.source.text import SourceText
from skyline.trace.batch_place import batch_place
from skyline.whatif.question import Question

_STARTED_OTHERWISE = ("data_parallel", "fsdp")
"""Changes after which the script is started in another way."""


@dataclass(frozen=True, slots=True)
class Change:
    """Changed texts by path, the arguments, either possibly unchanged, and the edits as a unified diff."""

    texts: tuple[tuple[str, str], ...]
    arguments: tuple[str, ...]
    diff: str

    def over(self, request: CaptureRequest) -> CaptureRequest:
        """The run with the change."""
        changed = {os.path.realpath(path) for path, _ in self.texts}
        kept = tuple(each for each in request.source_overrides if os.path.realpath(each[0]) not in changed)
        return replace(request, arguments=self.arguments, source_overrides=(*kept, *self.texts))


def change(
    analysis: Analysis, question: Question, arguments: tuple[str, ...], removes: tuple[str, ...] = ()
) -> Change:
    """The edits of ``skyline apply``; a batch size from the command line is changed there.

    ``removes`` are names of what-ifs that are removed from the code first. The sources are those of the profile. Raises
    RewriteRefused with the reason if a part cannot be written, and UsageError if nothing changes.
    """
    for choice in question.choices:
        if choice.name in _STARTED_OTHERWISE:
            raise UsageError(
                f"{choice.name} cannot be verified: the changed script runs as several processes, which "
                "torchrun starts",
                hint="Apply it to a copy, and measure that: skyline profile torchrun --nproc-per-node 2 COPY",
            )
    read = as_profiled(analysis.profile)
    arguments, question = _on_command_line(analysis, question, arguments)
    context = RewriteContext(analysis.profile, read)
    without = removals(analysis, removes, read)
    left = context.edited(without.edits)
    planned = plan(analysis, question, left.text)
    refused = (*without.refused, *planned.refused)
    if refused:
        first, *others = refused
        raise RewriteRefused(
            f"{first.name} cannot be verified, because its change cannot be made: {first.reason}",
            hint="\n".join(f"{each.name}: {each.reason}" for each in others)
            or "Make the change in a copy of the script and compare the two with: skyline verify SCRIPT --against COPY",
        )
    made = left.edited(planned.edits)
    edits = made.edits()
    changed = tuple((path, made.text(path).text) for path in dict.fromkeys(edit.span.file for edit in edits))
    if not changed and arguments == analysis.profile.arguments:
        raise UsageError("There is nothing to verify: the script already has this change")
    return Change(changed, arguments, diff(RewritePlan(edits), read))


def check_unchanged(analysis: Analysis, request: CaptureRequest) -> None:
    """Raise UsageError if a file was edited since it was profiled."""
    overrides = {os.path.realpath(path): text for path, text in request.source_overrides}
    for source in analysis.profile.sources:
        text = overrides.get(os.path.realpath(source.path))
        try:
            now = SourceText.read(source.path) if text is None else SourceText.of(source.path, text)
        except SkylineError:
            now = None
        if now is None or now.text != source.text:
            raise UsageError(
                f"{os.path.basename(source.path)} changed since it was profiled", hint="Profile it again."
            )
    setting = analysis.profile.setting
    if setting is not None and not still_holds(setting):
        raise UsageError(
            f"{os.path.basename(setting.file)} changed since it was profiled", hint="Profile it again."
        )


def _on_command_line(
    analysis: Analysis, question: Question, arguments: tuple[str, ...]
) -> tuple[tuple[str, ...], Question]:
    knob = batch_place(analysis.profile).knob
    if question.batch_size is None or knob is None or knob.kind is not KnobKind.COMMAND_LINE:
        return arguments, question
    return with_argument(knob, arguments, question.batch_size), replace(question, batch_size=None)
