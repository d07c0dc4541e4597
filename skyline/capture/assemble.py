"""Assembles a profile from the child's reports."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path

from skyline.capture.bare import BareRows
from skyline.capture.batch_in_force import UNKNOWN, BatchInForce, batch_in_force, loop_loader
from skyline.capture.early_facts import micro_batches
from skyline.capture.events import LoaderSeen, OptimizerSeen, Ready, RunFacts
from skyline.capture.iteration import iteration_fact
from skyline.capture.recording import ChildRecording, notes_on
from skyline.capture.redactor import Redactor, secret_free
from skyline.capture.request import CaptureRequest
from skyline.errors import SkylineError
from skyline.source.knob import ConfiguredSetting, Knob, KnobSearch
from skyline.source.loop_literals import loop_literals
from skyline.source.setting_names import Setting
from skyline.source.settings_file import is_settings_file, setting_places
from skyline.source.text import SourceText
from skyline.source.training_loop import find as find_loop
from skyline.trace.facts import (
    BatchFact,
    LoaderFact,
    MachineLoad,
    OptimizerFact,
    PowerFact,
    Protection,
    SideEffect,
)
from skyline.trace.profile import CAPTURE_SCHEMA, Profile, SourceFile
from skyline.trace.record import BareTimes, CodeLine
from skyline.trace.tensor_values import TensorValues
from skyline.trace.trial import FailedTrial, LayerTrials, ProductTrial, Trial


@dataclass(frozen=True, slots=True)
class ScriptRun:
    """The script's own run, measured and recorded. ``in_force`` is the batch size that the run showed."""

    request: CaptureRequest
    script: str
    text: SourceText
    sources: dict[str, str]
    directory: str
    interpreter: str
    ready: Ready
    rows: BareRows
    recording: ChildRecording
    knobs: KnobSearch
    notes: tuple[str, ...]
    in_force: BatchInForce = UNKNOWN
    ended_after: int | None = None
    """Total number of iterations of the script, if it ended while it was timed."""
    failed: bool = False
    """True if the run failed after it was recorded, so that nothing more can be measured in it."""
    paired_ms: tuple[float, ...] = ()
    """Bare iterations from directly before and after the recorded ones."""
    from_idle: BareTimes | None = None
    """Iterations that each began with an idle GPU."""
    power: PowerFact | None = None
    values: TensorValues | None = None
    copied_us_per_mb: float = 0.0
    """Cost of writing to memory that loader workers share; 0 if not measured."""
    load: MachineLoad | None = None
    side_effects: tuple[SideEffect, ...] = ()
    protection: Protection | None = None
    output_tail: str = ""
    redactor: Redactor = field(default_factory=Redactor)

    def iterations_at(self, batch_size: int) -> int | None:
        """Iterations of the script at a batch size, if an epoch is a fixed number of samples; None if not known."""
        if self.ended_after is None or not self.batch_size:
            return None
        return self.ended_after * self.batch_size // batch_size

    @property
    def goes_on(self) -> bool:
        """True if further iterations will be timed; on a device, all are timed before the recording."""
        on_device = self.facts.environment.device.kind != "cpu"
        over = self.failed or self.ended_after is not None
        return not (over or on_device or self.rows.settled)

    @property
    def facts(self) -> RunFacts:
        """Optimizers, loaders, leading dimensions and environment at the end of warm-up."""
        return self.ready.facts

    @property
    def batch_size(self) -> int | None:
        """The batch size of the run; None if nothing shows it."""
        return self.in_force.size

    @property
    def leading(self) -> tuple[int, ...]:
        """All numbers seen in the run that may be its batch size."""
        return self.facts.batch_sizes_seen

    @property
    def main_loader(self) -> LoaderSeen | None:
        """The loader of the training loop; if it is not known, the loader that delivered the most batches."""
        most = max(self.facts.loaders, key=lambda loader: loader.fetches, default=None)
        return loop_loader(self.facts, self.rows) or most

    @property
    def dataset_size(self) -> int | None:
        """Samples in the training set; None if the loader does not know it."""
        return self.main_loader.dataset_size if self.main_loader else None

    def with_batch(self) -> ScriptRun:
        """This run with the batch size that it shows; candidates with exactly this value come first."""
        arguments = self.request.arguments
        found = batch_in_force(self.knobs.candidates, self.facts, self.rows, self._settings(), arguments)
        if not found.knobs and not found.places and loop_loader(self.facts, self.rows) is None:
            unnamed = self._unnamed()
            if unnamed is not None:
                return replace(
                    self,
                    knobs=self.knobs.with_first(unnamed),
                    in_force=BatchInForce(unnamed.value, (unnamed,), sure=True),
                )
        hidden = [knob for knob in self.knobs.candidates if knob not in found.knobs]
        knobs = self.knobs.preferring(found.knobs)
        notes = self.notes
        if hidden and not found.knobs:
            names = ", ".join(
                f"{knob.name} = {knob.value} ({Path(knob.span.file).name}:{knob.span.line})"
                for knob in hidden[:3]
            )
            notes = (*notes, f"No batch of the run had the size that the source seems to set: {names}.")
        return replace(self, knobs=knobs, in_force=found, notes=notes)

    def _unnamed(self) -> Knob | None:
        """The one literal in the training loop that equals a first dimension of the model's inputs, if there is one."""
        line = self.ready.loop
        if line is None:
            return None
        try:
            literals = loop_literals(self.text_of(line.file), line.line)
        except SkylineError:
            return None
        fitting = [knob for knob in literals if knob.value in self.facts.fed_dimensions]
        return fitting[0] if len(fitting) == 1 else None

    def text_of(self, file: str) -> SourceText:
        """The text of a file as it ran; raises UsageError if it cannot be read."""
        real = str(Path(file).resolve())
        return SourceText.of(file, self.sources[real]) if real in self.sources else SourceText.read(file)

    def configured(self) -> tuple[ConfiguredSetting, ...]:
        """Settings files that hold the loader's number of workers or the number of accumulated batches."""
        loader = self.main_loader
        shown = (
            (Setting.NUM_WORKERS, loader.num_workers if loader else None),
            (Setting.GRAD_ACCUMULATION, micro_batches(self.facts, self.rows)),
        )
        files = tuple((path, text) for path, text in self._settings() if is_settings_file(path))
        found = [
            ConfiguredSetting(
                setting.value, value, tuple(setting_places(setting, files, value, self.request.arguments))
            )
            for setting, value in shown
            if value is not None
        ]
        return tuple(each for each in found if each.places)

    def _settings(self) -> tuple[tuple[str, str], ...]:
        """Files that may hold settings, with their texts: modules, then the files that the script opened."""
        found: list[tuple[str, str]] = []
        for path in dict.fromkeys((*self.facts.modules, *self.facts.settings_files)):
            try:
                text = self.sources[path] if path in self.sources else SourceText.read(path).text
            except SkylineError:
                continue  # the run created it in its scratch folder
            found.append((path, text))
        return tuple(found)


def assemble(
    run: ScriptRun,
    trials: tuple[Trial, ...] = (),
    products: tuple[ProductTrial, ...] = (),
    layers: LayerTrials | None = None,
    failed: tuple[FailedTrial, ...] = (),
    *,
    first: bool = False,
) -> Profile:
    """The profile of a run with the trials of its variants; ``first`` if further iterations are still to come."""
    profile = replace(
        _assembled(run),
        trials=trials,
        failed_trials=failed,
        product_trials=products,
        split_trials=layers.split if layers else (),
        kronecker_trials=layers.kronecker if layers else (),
    )
    return secret_free(replace(profile, first=first and run.goes_on), run.redactor)


def _assembled(run: ScriptRun) -> Profile:
    recording = run.recording
    return Profile(
        schema=CAPTURE_SCHEMA,
        id=secrets.token_hex(4),
        created=datetime.now(timezone.utc).astimezone().isoformat(timespec="seconds"),
        script=run.script,
        arguments=run.request.arguments,
        working_directory=run.directory,
        interpreter=run.interpreter,
        environment=run.facts.environment,
        sources=_source_files(run),
        times=run.rows.times(),
        warmup_iterations=run.ready.warmup,
        warmup_reason=run.ready.warmup_reason,
        paired_ms=run.paired_ms,
        from_idle=run.from_idle,
        power=run.power,
        load=run.load,
        module=run.request.module,
        iteration=iteration_fact(run.facts, run.rows),
        recorded_ms=recording.recorded_ms,
        trace=recording.trace,
        memory=recording.memory,
        peak_bytes=recording.peak_bytes,
        device_memory=recording.device_memory,
        batch=_batch(run),
        knobs=run.knobs,
        batch_size=run.batch_size,
        setting=next(iter(run.in_force.places), None),
        configured=run.configured(),
        optimizers=tuple(_optimizer(fact, run) for fact in run.facts.optimizers),
        loaders=tuple(_loader(fact, run) for fact in run.facts.loaders),
        loop_line=_loop_line(run),
        notes=(*run.notes, *notes_on(recording, run.facts.environment.device.kind)),
        side_effects=(*run.side_effects, *_evaluations(run.facts)),
        protection=run.protection,
        output_tail=run.output_tail,
        settings=recording.settings,
        modules=recording.modules,
        parallel=recording.parallel,
        calls=recording.calls,
        large_block_us_per_mb=run.facts.large_block_us_per_mb,
        copied_us_per_mb=run.copied_us_per_mb,
        labels=run.facts.labels,
        values=run.values,
    )


def _batch(run: ScriptRun) -> BatchFact:
    size, count = run.batch_size, micro_batches(run.facts, run.rows)
    return BatchFact(run.facts.leading[:8], size * count if size else None, count)


def _optimizer(seen: OptimizerSeen, run: ScriptRun) -> OptimizerFact:
    return OptimizerFact(
        name=seen.name,
        steps_per_iteration=seen.steps_lately or max(1, round(seen.steps / max(1, run.ready.warmup))),
        tensor_count=seen.tensor_count,
        parameter_count=seen.parameter_count,
        state_bytes=seen.state_bytes,
        options=seen.options,
        step_line=seen.step_line,
        created_line=seen.created_line,
    )


def _loader(seen: LoaderSeen, run: ScriptRun) -> LoaderFact:
    return LoaderFact(
        batch_size=seen.batch_size,
        num_workers=seen.num_workers,
        dataset_size=seen.dataset_size,
        fetches_per_iteration=run.rows.fetches if seen is run.main_loader else 0.0,
        pin_memory=seen.pin_memory,
        persistent_workers=seen.persistent_workers,
        created_line=seen.created_line,
        prefetch_factor=seen.prefetch_factor,
    )


def _evaluations(facts: RunFacts) -> tuple[SideEffect, ...]:
    return tuple(
        SideEffect("evaluation", seen.module, "replayed", seen.count, seen.line) for seen in facts.evaluations
    )


def _loop_line(run: ScriptRun) -> CodeLine | None:
    """The header of the loop around the statement that stayed on the stack from iteration to iteration."""
    line = run.ready.loop
    if line is None:
        return None
    try:
        header = find_loop(run.text_of(line.file), line.line)
    except SkylineError:
        header = None
    return CodeLine(line.file, header.line, line.function) if header else line


def _source_files(run: ScriptRun) -> tuple[SourceFile, ...]:
    paths = dict.fromkeys(
        [
            str(Path(run.script).resolve()),
            *run.facts.modules,
            *(line.file for line in run.recording.trace.lines),
        ]
    )
    files: list[SourceFile] = []
    for path in paths:
        try:
            text = run.sources[path] if path in run.sources else SourceText.read(path).text
        except SkylineError:
            continue
        files.append(
            SourceFile(path, hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest(), text)
        )
    return tuple(files)
