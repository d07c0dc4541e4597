"""Accuracy of the peak of tensor memory from shape tracing, compared with PyTorch's record of allocations.

Each script of ``memory_models`` runs twice on the CPU: measured, with the peak of PyTorch's allocator over an
iteration, and traced, without any allocation. The two have only the script in common.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from machine import Machine
from result_file import RESULTS, table, write

from skyline.capture.request import CaptureRequest
from skyline.capture.session import capture
from skyline.capture.shape_session import trace_shapes
from skyline.units import format_bytes

MODELS = Path(__file__).parent / "memory_models"
LARGEST_ERROR = 0.03


@dataclass(frozen=True, slots=True)
class Peaks:
    """The peak of one script, in bytes, recorded and traced."""

    script: str
    about: str
    recorded: int
    traced: int

    @property
    def error(self) -> float:
        """Error of the traced peak, as a share of the recorded one."""
        return self.traced / self.recorded - 1


def compare(script: Path, folder: Path) -> Peaks:
    """Run one script both ways."""
    request = CaptureRequest(script, working_directory=folder, settle_s=0.1, steps=2, batch_points=0)
    recorded = capture(request, progress=lambda _: None)
    traced = trace_shapes(request, None, progress=lambda _: None)
    about = script.read_text(encoding="utf-8").split('"""')[1].rstrip(".")
    return Peaks(script.name, about, recorded.peak_bytes, traced.peak_bytes)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scripts", nargs="*", type=Path, help="training scripts (default: memory_models)")
    parser.add_argument("--threads", type=int, default=1, help="threads of the scripts (default: 1)")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the result files")
    options = parser.parse_args()
    # CPU kernels allocate scratch space for each thread, which only the recorded figure includes.
    os.environ["OMP_NUM_THREADS"] = str(options.threads)
    machine = Machine.here()
    rows: list[Peaks] = []
    with tempfile.TemporaryDirectory() as folder:
        for script in options.scripts or sorted(MODELS.glob("*.py")):
            rows.append(compare(script.resolve(), Path(folder)))
            print(f"{rows[-1].script}: {rows[-1].error:+.2%}", flush=True)
    worst = max(abs(row.error) for row in rows)
    body = table(
        ["script", "recorded", "traced", "error", "what it trains"],
        [
            [
                row.script,
                format_bytes(row.recorded),
                format_bytes(row.traced),
                f"{row.error:+.2%}",
                row.about,
            ]
            for row in rows
        ],
    )
    median = statistics.median(abs(row.error) for row in rows)
    body += (
        f"\n\nMedian error {median:.2%}, largest {worst:.2%} (the goal is {LARGEST_ERROR:.0%}), with "
        f"{options.threads} thread(s). Kernels allocate scratch space for each thread, which tracing does "
        "not see. The runs are on a CPU. Neither figure includes the additional memory of a GPU's libraries, "
        "or the fragments of its allocator."
    )
    figures = [dict(asdict(row), error=row.error) for row in rows]
    print(
        write(
            "shape_memory", "Peak memory without computing", machine, body, figures, results=options.results
        )
    )
    return 0 if worst <= LARGEST_ERROR else 1


if __name__ == "__main__":
    raise SystemExit(main())
