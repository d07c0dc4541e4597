"""How well the what-ifs that change code predict what the changed script does.

Each script is profiled once and every what-if with a rewrite is predicted before anything else runs. Then the edit
that Skyline would make is applied to a copy, and copy and original are timed by hand in interleaved rounds, the
original first and last in each (the null). Beside the prediction stands "no change"; for the optimizer also Amdahl's
answer, that the optimizer's phase goes away altogether, which bounds what any fused step can bring.
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
from skyline.rewrite.plan import plan
from skyline.source.text import SourceText
from skyline.whatif.question import Choice, Question

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
WHATIFS = ("fused_optimizer", "num_workers")


@dataclass(frozen=True, slots=True)
class Prediction:
    """What was said about one change before it ran; ratios are to the script as it stands."""

    whatif: str
    ratio: float
    low: float
    high: float
    amdahl: float
    text: str
    """The script with Skyline's own edit in it."""


def predict(script: Path) -> list[Prediction]:
    """Profile the script; the predictions of every what-if that applies and can be rewritten."""
    with tempfile.TemporaryDirectory() as folder:
        request = CaptureRequest(script, working_directory=Path(folder), batch_points=0)
        profile = capture(request, progress=lambda _: None)
    analysis = analyse(profile)
    baseline = analysis.baseline.iteration_ms.value
    found: list[Prediction] = []
    for name in WHATIFS:
        answer = estimate(analysis, Question(choices=(Choice(name),)))
        if not answer.applicable or answer.rewrite != "available":
            print(f"{script.name}: {name}: {answer.reason or answer.rewrite_reason}", file=sys.stderr)
            continue
        question = Question(choices=(Choice(name, answer.value),))
        rewrite = plan(analysis, question, SourceText.read)
        change = answer.change_ms
        phases = analysis.phases
        gone = phases.optimizer if name == "fused_optimizer" else phases.data
        found.append(
            Prediction(
                whatif=f"{name}={answer.value}" if answer.value else name,
                ratio=1 + change.value / baseline,
                low=1 + change.low / baseline,
                high=1 + change.high / baseline,
                amdahl=1 - gone / baseline,
                text=SourceText.read(script).apply(rewrite.edits).text,
            )
        )
    return found


def measure(
    script: Path, predictions: list[Prediction], rounds: int, iterations: int
) -> tuple[dict[str, list[float]], list[float]]:
    """Measured ratios per what-if, one per round that was kept, and the null of every round."""
    ratios: dict[str, list[float]] = {one.whatif: [] for one in predictions}
    nulls: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        copies = {
            one.whatif: Path(folder) / str(index) / script.name for index, one in enumerate(predictions)
        }
        for one in predictions:
            copies[one.whatif].parent.mkdir()
            copies[one.whatif].write_text(one.text, encoding="utf-8")
        kept = 0
        while kept < rounds and len(nulls) < 2 * rounds:
            before = median_step_ms(script, iterations)
            steps = {name: median_step_ms(copy, iterations) for name, copy in copies.items()}
            after = median_step_ms(script, iterations)
            nulls.append(after / before)
            print(f"{script.name}: {before:.1f} ms, {steps}, null {nulls[-1]:.3f}", file=sys.stderr)
            if not is_steady(nulls[-1]):
                continue
            kept += 1
            for name, step in steps.items():
                ratios[name].append(step / ((before + after) / 2))
    return ratios, nulls


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scripts", nargs="*", type=Path, help="training scripts (default: the examples)")
    parser.add_argument("--rounds", type=int, default=5, help="steady rounds wanted per script")
    parser.add_argument("--iterations", type=int, default=30, help="iterations of each hand timing")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the result files")
    options = parser.parse_args()
    scripts = [path.resolve() for path in options.scripts] or sorted(EXAMPLES.glob("*.py"))

    machine = Machine.here()
    warn_when_busy(machine)
    rows: list[list[str]] = []
    figures: list[dict[str, object]] = []
    errors: dict[str, list[float]] = {"Skyline": [], "no change": [], "Amdahl": []}
    for script in scripts:
        try:
            predictions = predict(script)
        except SkylineError as error:
            print(f"{script.name}: {error}", file=sys.stderr)
            continue
        ratios, nulls = measure(script, predictions, options.rounds, options.iterations)
        for one in predictions:
            if not ratios[one.whatif]:
                rows.append([script.name, one.whatif, "no steady round", *[""] * 5])
                continue
            found = Ratio.of(ratios[one.whatif])
            said = {"Skyline": one.ratio, "no change": 1.0, "Amdahl": one.amdahl}
            misses = {name: ratio / found.value - 1 for name, ratio in said.items()}
            for name, miss in misses.items():
                errors[name].append(abs(miss))
            rows.append(
                [
                    script.name,
                    one.whatif,
                    str(found),
                    f"{one.ratio:.3f} [{one.low:.3f}, {one.high:.3f}]",
                    *(f"{miss:+.1%}" for miss in misses.values()),
                    "yes" if one.low <= found.value <= one.high else "no",
                ]
            )
            prediction = {key: value for key, value in asdict(one).items() if key != "text"}
            measured = {"ratio": asdict(found), "rounds": ratios[one.whatif], "nulls": nulls}
            figures.append(
                {"script": script.name, "predicted": prediction, "measured": measured, "errors": misses}
            )

    head = ["script", "change", "measured ratio", "predicted ratio", *errors, "inside"]
    means = {name: statistics.fmean(misses) for name, misses in errors.items() if misses}
    summary = ", ".join(f"{name} {mean:.1%}" for name, mean in means.items())
    body = (
        f"{table(head, rows)}\n\nRatios are iteration times over those of the script as it stands. Mean absolute "
        f"error: {summary or 'nothing could be measured'}. A round is discarded when its null (the original after "
        f"over the original before) is off by more than {NULL_TOLERANCE:.0%}. Intervals of the measured ratios are "
        "95 % bootstrap intervals of the median over rounds."
    )
    print(
        write(
            "whatif_accuracy",
            "What-ifs: predicted against measured",
            machine,
            body,
            figures,
            results=options.results,
        )
    )
    return 0 if means else 1


if __name__ == "__main__":
    sys.exit(main())
