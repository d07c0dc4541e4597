"""Compares Skyline's predictions for changed scripts with measurements: held-out batch sizes and what-ifs.

Each script is profiled once, and everything is predicted before anything else runs. Then each edit is made by Skyline's
own rewrite in a copy, and the copies and the original are timed by hand in turns, the original twice (the null).
The prediction is compared with two simple ones: "no change", and one rule of thumb for each kind of change. For a
batch size, the rule is "proportional": the iteration time grows in proportion to the batch size. For a what-if, it is
Amdahl's bound: the affected phase takes no time any more.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

from interleaved import HandTimed, TimedScript
from machine import Machine, warn_when_busy
from ratio import NULL_TOLERANCE, Ratio, is_steady
from result_file import RESULTS, table, write

from skyline.analysis.analyse import Analysis, analyse
from skyline.analysis.estimate import estimate
from skyline.capture.request import CaptureRequest
from skyline.capture.session import capture
from skyline.capture.turns import in_turns, trial
from skyline.errors import SkylineError
from skyline.rewrite.joint_edits import plan
from skyline.source.text import SourceText
from skyline.trace.trial import Choices, Trial, batch_trials
from skyline.whatif.question import Choice, Question

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
FACTORS = (0.75, 1.5, 3.0, 6.0)
"""Held-out batch sizes in multiples of the script's own: between measured points, and beyond them."""
WHATIFS = {"fused_optimizer": "optimizer", "num_workers": "data"}
"""What-ifs that rewrite code, with the affected phase."""

LONGER = {
    '"--epochs", type=int, default=2': '"--epochs", type=int, default=200',
    "epochs: int = 3": "epochs: int = 300",
}
"""The examples end after seconds, and at large batch sizes after a few iterations, so timed runs have more epochs."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """The prediction for one change, made before it ran. Ratios are relative to the unchanged script."""

    change: str
    ratio: float
    low: float
    high: float
    rule_of_thumb: float
    extrapolated: bool
    peak_bytes: float
    text: str
    """The script with Skyline's own edit."""


def predict(script: Path) -> list[Prediction]:
    """Profile the script, and predict every held-out batch size and every what-if that Skyline can rewrite."""
    with tempfile.TemporaryDirectory() as folder:
        profile = capture(CaptureRequest(script, working_directory=Path(folder)), progress=lambda _: None)
    analysis = analyse(profile)
    found: list[Prediction] = []
    base = profile.batch_size
    if base is not None:
        measured = {base, *batch_trials(profile.trials)}
        sizes = [size for factor in FACTORS if (size := max(1, round(base * factor))) not in measured]
        found += [
            _prediction(analysis, script, f"batch {base} → {size}", Question(size), size / base)
            for size in sizes
        ]
    for name, phase in WHATIFS.items():
        answer = estimate(analysis, Question(choices=(Choice(name),)))
        if not answer.applicable or answer.rewrite != "available":
            print(f"{script.name}: {name}: {answer.reason or answer.rewrite_reason}", file=sys.stderr)
            continue
        question = Question(choices=(Choice(name, answer.value),))
        bound = 1 - getattr(analysis.phases, phase) / analysis.baseline.iteration_ms.value
        found.append(_prediction(analysis, script, str(question.choices[0]), question, bound))
    return found


def _prediction(analysis: Analysis, script: Path, change: str, question: Question, rule: float) -> Prediction:
    answer = estimate(analysis, question)
    rewrite = plan(analysis, question, SourceText.read)
    if not answer.applicable or rewrite.refused:
        reason = rewrite.refused[0].reason if rewrite.refused else answer.reason
        raise SkylineError(f"{script.name}, {change}: {reason}")
    baseline = analysis.baseline.iteration_ms.value
    return Prediction(
        change=change,
        ratio=1 + answer.change_ms.value / baseline,
        low=1 + answer.change_ms.low / baseline,
        high=1 + answer.change_ms.high / baseline,
        rule_of_thumb=rule,
        extrapolated=answer.extrapolated,
        peak_bytes=answer.peak_bytes.value,
        text=SourceText.read(script).apply(rewrite.edits).text,
    )


def measure(script: Path, predictions: list[Prediction], rounds: int) -> dict[str, Trial]:
    """The trial of each change, with its copy in turns with the original."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))

        def timed(text: str, number: int) -> HandTimed:
            for short, long in LONGER.items():
                text = text.replace(short, long)
            copy = folder / str(number) / script.name
            copy.parent.mkdir()
            SourceText.of(str(copy), text).write_bytes()
            return stack.enter_context(HandTimed(TimedScript(copy)))

        original = SourceText.read(script).text
        base, again = timed(original, -1), timed(original, -2)
        copies = [timed(one.text, number) for number, one in enumerate(predictions)]
        done = in_turns(base, copies, again, rounds=rounds)
        return {one.change: trial(Choices(), done, number) for number, one in enumerate(predictions)}


def measured_peak(script: Path, text: str) -> int:
    """The peak of live tensor memory when the script runs with this text."""
    with tempfile.TemporaryDirectory() as folder:
        request = CaptureRequest(
            script,
            working_directory=Path(folder),
            steps=3,
            settle_s=0.5,
            batch_points=0,
            source_overrides=((str(script), text),),
        )
        return capture(request, progress=lambda _: None).peak_bytes


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scripts", nargs="*", type=Path, help="training scripts (default: the examples)")
    parser.add_argument("--rounds", type=int, default=8, help="rounds per script")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the result files")
    options = parser.parse_args()
    scripts = [path.resolve() for path in options.scripts] or sorted(EXAMPLES.glob("*.py"))

    machine = Machine.here()
    warn_when_busy(machine)
    rows: list[list[str]] = []
    figures: list[dict[str, object]] = []
    errors: dict[str, list[float]] = {"Skyline": [], "no change": [], "rule of thumb": []}
    inside = 0
    for script in scripts:
        predictions = predict(script)
        trials = measure(script, predictions, options.rounds)
        for one in predictions:
            samples = trials[one.change].ratios
            if len(samples) < 3:
                rows.append([script.name, one.change, "ended too soon", *[""] * 7])
                continue
            found, null = Ratio.of(samples), Ratio.of(trials[one.change].null)
            said = {"Skyline": one.ratio, "no change": 1.0, "rule of thumb": one.rule_of_thumb}
            misses = {name: ratio / found.value - 1 for name, ratio in said.items()}
            for name, miss in misses.items():
                errors[name].append(abs(miss))
            covered = one.high >= found.low and one.low <= found.high
            inside += covered
            peak = measured_peak(script, one.text)
            extrapolated = " extrapolated" if one.extrapolated else ""
            rows.append(
                [
                    script.name,
                    one.change,
                    str(found),
                    f"{one.ratio:.3f} [{one.low:.3f}, {one.high:.3f}]{extrapolated}",
                    *(f"{miss:+.1%}" for miss in misses.values()),
                    "yes" if covered else "no",
                    f"{one.peak_bytes / peak - 1:+.1%}",
                    f"{null.value:.3f}",
                ]
            )
            prediction = {key: value for key, value in asdict(one).items() if key != "text"}
            measured = {"ratio": asdict(found), "rounds": samples, "null": asdict(null), "peak_bytes": peak}
            figures.append(
                {"script": script.name, "predicted": prediction, "measured": measured, "errors": misses}
            )
            print(f"{script.name}: {rows[-1]}", file=sys.stderr)

    head = ["script", "change", "measured ratio", "predicted ratio", *errors, "overlap", "peak", "null"]
    means = {name: statistics.fmean(misses) for name, misses in errors.items() if misses}
    medians = {name: statistics.median(misses) for name, misses in errors.items() if misses}
    summary = "; ".join(f"{name} {means[name]:.1%} (median {medians[name]:.1%})" for name in means)
    count = len(errors["Skyline"])
    unsteady = sum(not is_steady(float(row[-1])) for row in rows if row[-1])
    body = (
        f"{table(head, rows)}\n\nEach ratio is an iteration time divided by that of the unchanged script. Mean "
        "absolute error: "
        f"{summary or 'nothing could be measured'}. The predicted interval overlaps the measured one in {inside} of "
        f"{count}. Intervals of measured ratios are 95 % bootstrap intervals of the median over rounds. `peak` is "
        f"the predicted peak memory, compared with a run of the changed script. {unsteady} of {count} rows "
        f"have a null that is off by more than {NULL_TOLERANCE:.0%} and are unreliable."
    )
    title = "Predictions compared with the changed script"
    print(write("prediction_accuracy", title, machine, body, figures, results=options.results))
    return 0 if count else 1


if __name__ == "__main__":
    sys.exit(main())
