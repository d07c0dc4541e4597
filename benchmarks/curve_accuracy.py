"""How well the curve over batch sizes predicts sizes that were never measured.

Each script is profiled once; what the profile predicts for held-out batch sizes is fixed before any of
them runs. Then the edit that Skyline would make is applied to a copy of the script, and the copies are timed
by hand in interleaved rounds, the script as it stands first and last in each. Beside the prediction stand two
that need no tool: "no change" (the iteration takes as long as before) and "proportional" (as much longer as
the batch is larger).
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from machine import Machine, warn_when_busy
from ratio import NULL_TOLERANCE, Ratio, is_steady
from result_file import RESULTS, table, write
from timed_by_hand import median_step_ms

from skyline.analysis.analyse import analyse
from skyline.analysis.estimate import estimate
from skyline.capture.request import CaptureRequest
from skyline.capture.session import capture
from skyline.errors import SkylineError
from skyline.report.build import profile_report
from skyline.rewrite.plan import plan
from skyline.source.text import SourceText
from skyline.whatif.question import Question

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
FACTORS = (0.75, 1.5, 3.0, 6.0)
"""Held-out sizes in multiples of the script's own: between measured points, and beyond them."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """What was said about one batch size before it ran; ratios are to the script as it stands."""

    batch_size: int
    ratio: float
    low: float
    high: float
    peak_bytes: float
    extrapolated: bool
    text: str
    """The script with Skyline's own edit in it."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A profiled script and the predictions for it."""

    script: Path
    batch_size: int
    predictions: tuple[Prediction, ...]


def predict(script: Path, factors: tuple[float, ...]) -> Subject:
    """Profile the script and predict every held-out size that the profile did not measure."""
    with tempfile.TemporaryDirectory() as folder:
        profile = capture(CaptureRequest(script, working_directory=Path(folder)), progress=lambda _: None)
    analysis = analyse(profile)
    report = profile_report(analysis)
    base = report.batch_size.value
    if base is None:
        raise SkylineError(f"{script.name}: no batch size was found: {report.batch_size.reason}")
    measured = {point.batch_size for point in profile.points}
    sizes = [size for factor in factors if (size := max(1, round(base * factor))) not in {*measured, base}]
    return Subject(
        script, base, tuple(_predict(analysis, report.iteration_ms.value, script, size) for size in sizes)
    )


def _predict(analysis: object, baseline_ms: float, script: Path, size: int) -> Prediction:
    question = Question(batch_size=size)
    answer = estimate(analysis, question)  # pyright: ignore[reportArgumentType]
    if not answer.applicable:
        raise SkylineError(f"{script.name} at batch size {size}: {answer.reason}")
    rewrite = plan(analysis, question, SourceText.read)  # pyright: ignore[reportArgumentType]
    if rewrite.refused:
        raise SkylineError(f"{script.name} at batch size {size}: {rewrite.refused[0].reason}")
    text = SourceText.read(script).apply(rewrite.edits).text
    return Prediction(
        batch_size=size,
        ratio=answer.iteration_ms.value / baseline_ms,
        low=answer.iteration_ms.low / baseline_ms,
        high=answer.iteration_ms.high / baseline_ms,
        peak_bytes=answer.peak_bytes.value,
        extrapolated=answer.extrapolated,
        text=text,
    )


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


def measure(subject: Subject, rounds: int, iterations: int) -> tuple[dict[int, list[float]], list[float]]:
    """Measured ratios per batch size, one per round that was kept, and the null of every round."""
    ratios: dict[int, list[float]] = {one.batch_size: [] for one in subject.predictions}
    nulls: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        copies = {
            one.batch_size: Path(folder) / str(one.batch_size) / subject.script.name
            for one in subject.predictions
        }
        for one in subject.predictions:
            copies[one.batch_size].parent.mkdir()
            copies[one.batch_size].write_text(one.text, encoding="utf-8")
        kept = 0
        while kept < rounds and len(nulls) < 2 * rounds:
            before = median_step_ms(subject.script, iterations)
            steps = {
                size: median_step_ms(copy, _enough(iterations, size, subject))
                for size, copy in copies.items()
            }
            after = median_step_ms(subject.script, iterations)
            nulls.append(after / before)
            print(f"{subject.script.name}: {before:.1f} ms, {steps}, null {nulls[-1]:.3f}", file=sys.stderr)
            if not is_steady(nulls[-1]):
                continue
            kept += 1
            for size, step in steps.items():
                ratios[size].append(step / ((before + after) / 2))
    return ratios, nulls


def _enough(iterations: int, size: int, subject: Subject) -> int:
    """Fewer iterations of a larger batch: as much data, and no fewer than eight."""
    return max(8, min(iterations, round(iterations * subject.batch_size / size)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scripts", nargs="*", type=Path, help="training scripts (default: the examples)")
    parser.add_argument("--rounds", type=int, default=5, help="steady rounds wanted per script")
    parser.add_argument(
        "--iterations", type=int, default=30, help="iterations of each hand timing at the script's size"
    )
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the result files")
    options = parser.parse_args()
    scripts = [path.resolve() for path in options.scripts] or sorted(EXAMPLES.glob("*.py"))

    machine = Machine.here()
    warn_when_busy(machine)
    rows: list[list[str]] = []
    figures: list[dict[str, object]] = []
    errors: dict[str, list[float]] = {"Skyline": [], "no change": [], "proportional": []}
    for script in scripts:
        subject = predict(script, FACTORS)
        ratios, nulls = measure(subject, options.rounds, options.iterations)
        for one in subject.predictions:
            if not ratios[one.batch_size]:
                rows.append(
                    [script.name, f"{subject.batch_size} → {one.batch_size}", "no steady round", *[""] * 6]
                )
                continue
            found = Ratio.of(ratios[one.batch_size])
            proportional = one.batch_size / subject.batch_size
            misses = {"Skyline": one.ratio, "no change": 1.0, "proportional": proportional}
            misses = {name: said / found.value - 1 for name, said in misses.items()}
            for name, miss in misses.items():
                errors[name].append(abs(miss))
            peak = measured_peak(script, one.text)
            rows.append(
                [
                    script.name,
                    f"{subject.batch_size} → {one.batch_size}",
                    str(found),
                    f"{one.ratio:.3f} [{one.low:.3f}, {one.high:.3f}]"
                    + (" extrapolated" if one.extrapolated else ""),
                    *(f"{misses[name]:+.1%}" for name in errors),
                    "yes" if one.low <= found.value <= one.high else "no",
                    f"{one.peak_bytes / peak - 1:+.1%}",
                ]
            )
            prediction = {key: value for key, value in asdict(one).items() if key != "text"}
            measured = {
                "ratio": asdict(found),
                "rounds": ratios[one.batch_size],
                "nulls": nulls,
                "peak_bytes": peak,
            }
            figures.append(
                {"script": script.name, "predicted": prediction, "measured": measured, "errors": misses}
            )
    head = ["script", "batch size", "measured ratio", "predicted ratio"]
    head += [f"error of {name}" for name in errors] + ["inside the range", "error of peak memory"]
    summary = ", ".join(f"{name} {statistics.fmean(seen):.1%}" for name, seen in errors.items() if seen)
    body = (
        f"{table(head, rows)}\n\nMean absolute error: {summary or 'nothing was measured'}.\n\n"
        "Ratios are iteration times over those of the script as it stands. Measured: by hand, medians "
        "over rounds whose two timings of the unchanged script agree within "
        f"{NULL_TOLERANCE:.0%}, with 95 % bootstrap intervals. "
        "Predicted: from one profile, before any of these sizes ran, with the range Skyline gave."
    )
    print(
        write(
            "curve_accuracy",
            "Predicting batch sizes that were not measured",
            machine,
            body,
            figures,
            results=options.results,
        )
    )
    return 0 if figures else 1


if __name__ == "__main__":
    sys.exit(main())
