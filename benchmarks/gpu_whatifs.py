"""What-ifs on stored float32 profiles of a GPU, compared with the measured steps of the changed trainings.

``gpu_h200`` has profiles of ``gpu_models_training.py`` on an NVIDIA H200, and the rows that ``gpu_models.py`` measured
there without Skyline. Every row of a profiled model and batch size that differs in one number format is a question.
Files named ``changes_...`` have changes of whole scripts that were measured there next to the unchanged script. The
baseline predicts that the change has no effect.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from machine import Machine
from result_file import RESULTS, table, write

from skyline.analysis.analyse import Analysis, analyse
from skyline.analysis.estimate import estimate
from skyline.graph.task import ON_GPU
from skyline.trace.store import load
from skyline.whatif.question import Choice, Question

KEPT = Path(__file__).parent / "gpu_h200"
QUESTIONS = {"tf32": Choice("tf32"), "amp": Choice("amp", "fp16"), "bf16": Choice("amp", "bf16")}
"""The what-if that changes float32 to a number format, by that format."""
_DEVICE_SIDE = 1.1
"""A step within this factor of its kernels' time is bound by the GPU."""
_NOTES = """
`fp16` is autocast with a `GradScaler`, as in the measured script. A step is bound by the GPU if it is within
10 % of the time of its kernels. Otherwise it is bound by the host or its wait for the GPU. The rows come from
one virtual machine with 16 cores. After the first recording of a process, the recorder of kernels may have
stayed attached. The rows after the first row of a run may therefore have a slower host than a script by
itself.

The first score, with the product before it used any of these rows: 4 of 6 in the range, mean absolute error
21 %, worst 44 %. Two parts were changed after these profiles were seen: the model of the host, and the list
of kernels that autocast leaves in float32. The profile of ResNet-50 sets the constant for a recorder that
stays attached.

The rows of `changes_gpt2` came later. Their first score: `batch_size` 0.0 % off, `tf32` and `amp=bf16` 29 %
too short and outside the range. A profile records only the inputs of each call, and the predictors treated
the missing output of a product as a single number. The sizes of all recorded products were therefore unknown.
Outputs are now derived from the inputs. No constant was changed.

`changes_imagenet` is PyTorch's own ImageNet example (ResNet-50, batches of 128, eight loader workers).
`changes_nanogpt` is nanoGPT's character model. Both are public scripts that set no constant, measured in a
third run. Skyline wrote the changes of the ImageNet example. Their times are medians of the iterations in
which each process warmed up, one process after the other, with a null of 0.7 %, because the GPU's time ended
before they took turns. For nanoGPT, the script's own option `--compile` was set by hand, and its printed
times of 400 iterations were compared. No null was measured. The first score of these five: 4 inside, mean
absolute error 11 %. `channels_last` was 20 % too long and outside the range. The product removed the
conversions between layouts and made convolutions a tenth faster. But the kernels of cuDNN's batch
normalization, a third of this step, are also faster in this layout. They now get the predictor's time for the
layout, whose constants come from an RTX 3090. No constant was changed.

The recordings of the published models were made before the product recorded the shapes of kernels. The shapes
of three models come from the trace by shape of the same script (`sized_kernels.py`), with outputs.
ResNet-50's kernels have no shapes.
"""


@dataclass(frozen=True, slots=True)
class Compared:
    """One question with its times, in ms."""

    model: str
    question: str
    unchanged_ms: float
    told_ms: float
    low_ms: float
    high_ms: float
    measured_ms: float
    kernels_ms: float | None
    """The sum of the kernels of the changed training; None if it was not recorded."""

    @property
    def error(self) -> float:
        """The answer over the measured time, minus one."""
        return self.told_ms / self.measured_ms - 1

    @property
    def no_change(self) -> float:
        """The error of the unchanged step as the prediction."""
        return self.unchanged_ms / self.measured_ms - 1

    @property
    def inside(self) -> bool:
        """True if the range contains the measured time."""
        return self.low_ms <= self.measured_ms <= self.high_ms

    def row(self) -> list[str]:
        """The row of the table."""
        known = self.kernels_ms
        bound = "" if known is None else "GPU" if self.measured_ms <= _DEVICE_SIDE * known else "host"
        return [
            self.model,
            self.question,
            f"{self.unchanged_ms:.1f}",
            f"{self.told_ms:.1f} ({self.low_ms:.1f} to {self.high_ms:.1f})",
            f"{self.measured_ms:.1f}",
            "" if known is None else f"{known:.1f}",
            bound,
            f"{self.error:+.0%}",
            f"{self.no_change:+.0%}",
            "inside" if self.inside else "outside",
        ]


def host(analysis: Analysis) -> dict[str, float]:
    """The time of the script's thread per iteration in ms, and per kernel in µs."""
    subject = analysis.baseline
    graph = subject.graph
    mine = graph.tasks.lane == graph.tasks.lane_code(subject.lane)
    took_ms = float((graph.durations + graph.gaps)[mine].sum()) / 1e3 / subject.steps
    kernels = float(ON_GPU[graph.tasks.kind].sum()) / subject.steps
    return {"host_ms": took_ms, "kernels": kernels, "host_us_per_kernel": 1e3 * took_ms / kernels}


def compare() -> tuple[list[Compared], dict[str, dict[str, float]]]:
    """All questions, and the host times of each profile."""
    found: list[Compared] = []
    hosts: dict[str, dict[str, float]] = {}
    for path in sorted(KEPT.glob("*.profile.json.gz")):
        name = path.name.partition(".")[0]
        analysis = analyse(load(path))
        hosts[name] = host(analysis)
        unchanged_ms = analysis.baseline.iteration_ms.value
        for choices, measured_ms, kernels_ms in (*_trainings(name), *_changes(name, unchanged_ms)):
            told = estimate(analysis, Question(choices=choices)).iteration_ms
            asked = " ".join(map(str, choices))
            found.append(
                Compared(name, asked, unchanged_ms, told.value, told.low, told.high, measured_ms, kernels_ms)
            )
    return found, hosts


def _trainings(model: str) -> Iterator[tuple[tuple[Choice, ...], float, float]]:
    """The measured trainings of a model in another format. Rows of ``rows_alone`` replace earlier ones."""
    rows = {
        (row["model"], row["format"]): row
        for name in ("rows", "rows_alone")
        for row in map(json.loads, (KEPT / f"{name}.jsonl").read_text(encoding="utf-8").splitlines())
        if not row["channels_last"]
    }
    for (one, number_format), row in rows.items():
        if one == model and number_format in QUESTIONS:
            yield (QUESTIONS[number_format],), row["step_ms"], row["kernels_ms"]


def _changes(name: str, unchanged_ms: float) -> Iterator[tuple[tuple[Choice, ...], float, None]]:
    """The changes that were measured next to the profiled script."""
    path = KEPT / f"{name}.json"
    if name.startswith("changes_"):
        for words, row in json.loads(path.read_text(encoding="utf-8")).items():
            choices = tuple(Choice.parse(one) for one in words.split())
            yield choices, unchanged_ms * row["measured"]["value"], None


def page(found: list[Compared], hosts: dict[str, dict[str, float]]) -> str:
    """The text of the page."""
    errors = [abs(one.error) for one in found]
    unchanged = [abs(one.no_change) for one in found]
    head = (
        "model",
        "what-if",
        "unchanged",
        "predicted",
        "measured",
        "kernels",
        "bound by",
        "error",
        "no change",
        "range",
    )
    summary = (
        f"{len(found)} questions: {sum(one.inside for one in found)} measured steps lie in the range. The mean "
        f"absolute error is {statistics.fmean(errors):.0%} (worst {max(errors):.0%}). 'No change' is "
        f"{statistics.fmean(unchanged):.0%} off (worst {max(unchanged):.0%}). Times in ms."
    )
    of_host = table(
        ("model", "host per iteration", "kernels and copies", "host per kernel"),
        [
            [name, f"{one['host_ms']:.1f} ms", f"{one['kernels']:.0f}", f"{one['host_us_per_kernel']:.0f} µs"]
            for name, one in hosts.items()
        ],
    )
    return (
        f"{summary}\n\n{table(head, [one.row() for one in found])}\n\n{_NOTES.strip()}\n\n"
        f"The host times in the graphs of the float32 profiles:\n\n{of_host}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the pages")
    args = parser.parse_args()
    machine = Machine.here()
    found, hosts = compare()
    figures = {"rows": [asdict(one) | {"inside": one.inside} for one in found], "hosts": hosts}
    title = "What-ifs on a GPU compared with measured steps"
    print(write("gpu_whatifs", title, machine, page(found, hosts), figures, results=args.results))


if __name__ == "__main__":
    main()
