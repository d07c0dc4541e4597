"""Whether the iteration time that Skyline shows is the one the script has without it.

Each round times the script by hand, profiles it, and times it by hand again, every time in a fresh process.
The figure is Skyline's iteration time over the mean of the two hand timings around it; the null is the second
hand timing over the first. Rounds whose null is off by more than 3 % are thrown away.
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
from skyline.capture.request import CaptureRequest
from skyline.capture.session import capture
from skyline.report.build import profile_report

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


@dataclass(frozen=True, slots=True)
class Round:
    """One round: milliseconds per iteration, by hand before, by Skyline, by hand after."""

    before_ms: float
    skyline_ms: float
    after_ms: float

    @property
    def null(self) -> float:
        """The second hand timing over the first: one, on a steady machine."""
        return self.after_ms / self.before_ms

    @property
    def ratio(self) -> float:
        """Skyline's iteration time over that by hand."""
        return self.skyline_ms / ((self.before_ms + self.after_ms) / 2)


def skyline_ms(script: Path) -> float:
    """The iteration time in the headline of a profile of the script."""
    with tempfile.TemporaryDirectory() as folder:
        request = CaptureRequest(script=script, working_directory=Path(folder), batch_points=0)
        profile = capture(request, progress=lambda _: None)
    return profile_report(analyse(profile)).iteration_ms.value


def measure(script: Path, wanted: int, iterations: int) -> tuple[list[Round], list[Round]]:
    """Rounds kept and rounds thrown away; stops trying at twice the number wanted."""
    kept: list[Round] = []
    discarded: list[Round] = []
    while len(kept) < wanted and len(kept) + len(discarded) < 2 * wanted:
        one = Round(
            median_step_ms(script, iterations), skyline_ms(script), median_step_ms(script, iterations)
        )
        (kept if is_steady(one.null) else discarded).append(one)
        verdict = "kept" if is_steady(one.null) else "discarded"
        print(
            f"{script.name}: {one.before_ms:.2f} ms by hand, {one.skyline_ms:.2f} by Skyline, "
            f"{one.after_ms:.2f} by hand · ratio {one.ratio:.3f} · null {one.null:.3f} · {verdict}",
            file=sys.stderr,
        )
    return kept, discarded


def row(script: Path, kept: list[Round], discarded: list[Round]) -> tuple[list[str], dict[str, object]]:
    """One line of the table and its figures."""
    figures: dict[str, object] = {
        "script": script.name,
        "kept": [asdict(one) for one in kept],
        "discarded": [asdict(one) for one in discarded],
    }
    if not kept:
        return [script.name, "", "", "no steady round", "", f"0 of {len(discarded)}"], figures
    by_hand = statistics.median([(one.before_ms + one.after_ms) / 2 for one in kept])
    shown = statistics.median([one.skyline_ms for one in kept])
    ratio, null = Ratio.of([one.ratio for one in kept]), Ratio.of([one.null for one in kept])
    figures |= {"ratio": asdict(ratio), "null": asdict(null)}
    rounds = f"{len(kept)} of {len(kept) + len(discarded)}"
    return [script.name, f"{by_hand:.2f}", f"{shown:.2f}", str(ratio), str(null), rounds], figures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scripts", nargs="*", type=Path, help="training scripts (default: the examples)")
    parser.add_argument("--rounds", type=int, default=7, help="steady rounds wanted per script (at least 5)")
    parser.add_argument("--iterations", type=int, default=60, help="iterations of each hand timing")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the result files")
    options = parser.parse_args()
    scripts = [path.resolve() for path in options.scripts] or sorted(EXAMPLES.glob("*.py"))

    machine = Machine.here()
    warn_when_busy(machine)
    rows: list[list[str]] = []
    figures: list[dict[str, object]] = []
    for script in scripts:
        cells, numbers = row(script, *measure(script, options.rounds, options.iterations))
        rows.append(cells)
        figures.append(numbers)
    head = [
        "script",
        "by hand, ms",
        "Skyline, ms",
        "Skyline / by hand",
        "by hand again / by hand",
        "rounds kept",
    ]
    body = (
        f"{table(head, rows)}\n\nMedians over rounds; brackets are 95 % bootstrap intervals. A round is "
        f"kept when the script timed by hand twice, before and after, agrees within {NULL_TOLERANCE:.0%}."
    )
    print(
        write(
            "iteration_time",
            "Iteration time: Skyline against a stopwatch",
            machine,
            body,
            figures,
            results=options.results,
        )
    )
    return 0 if all("ratio" in numbers for numbers in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
