"""Compares what-ifs on predicted profiles with predictions of the changed scripts.

ResNet-50 and GPT-2 of ``tracing_models`` are traced without autocast and predicted for several GPUs, and the what-ifs
are applied to these profiles. Then the scripts are changed, traced and predicted again. Both answers use the same
predictor: their difference shows only how the what-ifs change operators, not the quality of the predictor.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from machine import Machine
from result_file import RESULTS, table, write

from skyline.analysis.analyse import Analysis, analyse
from skyline.analysis.estimate import estimate
from skyline.capture.request import CaptureRequest
from skyline.predict.gpu_profile import gpu_profile
from skyline.whatif.question import Choice, Question

MODELS = Path(__file__).parent / "tracing_models"
GPUS = ("h100", "a100", "rtx 3090", "rtx 4090")
_AUTOCAST = 'torch.autocast("cuda", torch.bfloat16)'
_OFF = 'torch.autocast("cuda", torch.bfloat16, enabled=False)'
_LAST = ".to(memory_format=torch.channels_last)"


@dataclass(frozen=True, slots=True)
class Compared:
    """One question on one GPU, with times in ms."""

    script: str
    gpu: str
    question: str
    unchanged_ms: float
    asked_ms: float
    low_ms: float
    high_ms: float
    traced_ms: float

    @property
    def error(self) -> float:
        """The answer over the traced time, minus one."""
        return self.asked_ms / self.traced_ms - 1


def texts(name: str) -> dict[str, tuple[tuple[Choice, ...], str]]:
    """The what-ifs of each question, and the script with these changes."""
    narrow = (MODELS / f"{name}.py").read_text(encoding="utf-8")
    amp = Choice("amp", "bf16")
    found = {"amp=bf16": ((amp,), narrow)}
    if name == "resnet50":
        laid = narrow.replace(".cuda()\n", f".cuda(){_LAST}\n").replace(
            '224, device="cuda")', f'224, device="cuda"){_LAST}'
        )
        last = Choice("channels_last")
        found["channels_last"] = ((last,), laid.replace(_AUTOCAST, _OFF))
        found["amp=bf16 channels_last"] = ((amp, last), laid)
    return found


def traced(text: str, gpu: str) -> Analysis:
    """The analysis of a script's prediction."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "train.py"
        script.write_text(text, encoding="utf-8")
        request = CaptureRequest(script, gpu=gpu, batch_points=0)
        return analyse(gpu_profile(request, progress=lambda _: None))


def compared(name: str, gpu: str) -> list[Compared]:
    """All questions about one script on one GPU."""
    plain = (MODELS / f"{name}.py").read_text(encoding="utf-8").replace(_AUTOCAST, _OFF)
    start = traced(plain, gpu)
    rows: list[Compared] = []
    for question, (choices, text) in texts(name).items():
        answer = estimate(start, Question(choices=choices)).iteration_ms
        there = traced(text, gpu).baseline.iteration_ms.value
        unchanged = start.baseline.iteration_ms.value
        rows.append(Compared(name, gpu, question, unchanged, answer.value, answer.low, answer.high, there))
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the result files")
    options = parser.parse_args()
    machine = Machine.here()
    rows = [row for name in ("resnet50", "gpt2") for gpu in GPUS for row in compared(name, gpu)]
    head = ["script", "GPU", "what-if", "unchanged ms", "asked ms", "traced ms", "error"]
    cells = [
        [
            one.script,
            one.gpu,
            one.question,
            f"{one.unchanged_ms:.1f}",
            f"{one.asked_ms:.1f} ({one.low_ms:.1f}–{one.high_ms:.1f})",
            f"{one.traced_ms:.1f}",
            f"{one.error:+.1%}",
        ]
        for one in rows
    ]
    mean = sum(abs(one.error) for one in rows) / len(rows)
    inside = sum(one.low_ms <= one.traced_ms <= one.high_ms for one in rows)
    body = (
        f"{table(head, cells)}\n\nMean error {mean:.1%}; {inside} of {len(rows)} traced times lie within the "
        "range. Both answers use the same predictor. The comparison therefore does not test the predictor."
    )
    title = "What-ifs on predicted profiles, and traces of the changed scripts"
    print(
        write(
            "predicted_whatifs", title, machine, body, [asdict(one) for one in rows], results=options.results
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
