"""The predicted memory peak of changes of the workload, compared with the peak of the rewritten script.

Each script is profiled once. Each change that applies and can be written is made by the rewrite, in memory, and the
changed script is profiled too. Peaks are exact in a run, so one run is enough. Scripts are given as paths. By default
the examples are measured.
"""

from __future__ import annotations

import sys
from pathlib import Path

from machine import Machine
from result_file import table, write

from skyline.analysis.analyse import analyse
from skyline.analysis.estimate import estimate
from skyline.capture.request import CaptureRequest
from skyline.capture.session import capture
from skyline.errors import SkylineError
from skyline.verification.change import change
from skyline.whatif.question import Choice, Question

EXAMPLES = Path(__file__).parents[1] / "examples"
CHANGES = (
    "checkpointing",
    "checkpointing=1",
    "checkpointing=2",
    "grad_accumulation=2",
    "grad_accumulation=4",
    "zero_grad",
    "fused_optimizer=fused",
    "fused_optimizer=foreach",
    "batch_size=32 checkpointing",
    "batch_size=32 grad_accumulation=2",
    "checkpointing=1 grad_accumulation=2",
)


def main(paths: list[str]) -> None:
    """Profile, predict, rewrite, profile again; write the page."""
    rows: list[tuple[str, str, str, str, str]] = []
    figures: list[dict[str, object]] = []
    for path in map(Path, paths or [str(one) for one in sorted(EXAMPLES.glob("*.py"))]):
        request = CaptureRequest(script=path, settle_s=1.0)
        profile = capture(request, progress=lambda _: None)
        analysis = analyse(profile)
        for asked in CHANGES:
            question = Question(None, tuple(map(Choice.parse, asked.split())))
            try:
                found = estimate(analysis, question)
                if not found.applicable or found.peak_bytes is None:
                    continue
                changed = change(analysis, question, profile.arguments)
                short = CaptureRequest(script=path, settle_s=0.5, batch_points=0, steps=4)
                measured = capture(changed.over(short), progress=lambda _: None).peak_bytes
            except SkylineError as error:
                print(f"{path.name} {asked}: {error}", flush=True)
                continue
            predicted = found.peak_bytes.value
            off = predicted / measured - 1
            held = found.peak_bytes.low * 0.999 <= measured <= found.peak_bytes.high * 1.001
            rows.append(
                (
                    path.name,
                    f"`{asked}`",
                    f"{profile.peak_bytes / 1e6:.2f}",
                    f"{predicted / 1e6:.2f}",
                    f"{measured / 1e6:.2f} ({off:+.1%})",
                )
            )
            figures.append(
                {
                    "script": path.name,
                    "change": asked,
                    "before_bytes": profile.peak_bytes,
                    "predicted_bytes": predicted,
                    "measured_bytes": measured,
                    "held": held,
                }
            )
            print(*rows[-1], flush=True)
    body = table(("script", "change", "peak before, MB", "predicted, MB", "measured, MB"), rows)
    print(
        write(
            "workload_memory",
            "Peaks of changed scripts, predicted and measured",
            Machine.here(),
            body,
            figures,
        )
    )


if __name__ == "__main__":
    main(sys.argv[1:])
