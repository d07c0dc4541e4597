"""Step times of trainings on a GPU, predicted from shapes and compared with measurements.

Reads the rows measured by ``gpu_models.py``. Traces each training by shape on a CPU, and predicts it with the product's
predictor and with the roofline. A step includes the host's launches; the kernels are also compared separately.
``gpu_models_first`` is the page of the first prediction, before anything was measured on this GPU. Since then, the
recording of one training has set constants, so its row is shown but not scored. ``gpu_models_alone`` is the page of
later rows (``--rows gpu_h200/rows_alone.jsonl``), with the same predictions after ``skyline calibrate`` on this GPU
(``--calibration``).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from unittest.mock import patch

from machine import Machine
from result_file import RESULTS, table, write

from skyline.calibrate.store import folder as calibration_folder
from skyline.capture.request import CaptureRequest
from skyline.errors import SkylineError
from skyline.predict.gpu_spec import GpuSpec
from skyline.predict.gpus import gpu_named
from skyline.predict.predicted_times import timed
from skyline.predict.registry import predictor_for, predictor_named
from skyline.predict.shape_tracer import ScriptTracer
from skyline.trace.profile import Profile
from skyline.trace.record import RecordKind

_HERE = Path(__file__).resolve().parent
ROWS = _HERE / "gpu_h200" / "rows.jsonl"
_SCRIPT = _HERE / "gpu_models_training.py"
_SETTING = ("resnet50", "float32")
"""The training whose recording set the rates of batch normalization (``by_format``)."""
_FIRST = "gpu_models_first"
_NOTES = {
    "rows": "The rows after the first row of a process may have a slower host than a script by itself, "
    "because a recorder of kernels may have stayed attached. The recording of ResNet-50 in float32 set "
    "rates of batch normalization, so its row is not scored. `skyline calibrate` measured for 1.2 minutes "
    "in a later run.",
    "rows_alone": "Each row was measured in its own process, on a GPU without other users. No row set a "
    "constant, and no row was seen before it was predicted. Earlier rows of five of these trainings were "
    "seen before, when the model of the host was changed. The last line of the summary uses the "
    "measurements of `skyline calibrate` on this GPU (1.2 minutes). Its first value was 49.3 % (kernels "
    "84 %). The corrections came from another predictor, from kernels as short as their launch, from "
    "convolutions without TF32, and from PyTorch's own batch normalization. This was corrected after these "
    "rows were seen, and the measured batch normalizations are left out.",
}
"""The pages by name of the file of rows."""
_CONVOLUTIONAL = ("net", "vgg", "inception", "convnext")


@dataclass(frozen=True, slots=True)
class Prediction:
    """A training with its measured and predicted times, in ms."""

    model: str
    batch: int
    format: str
    channels_last: bool
    step_ms: float
    kernels_ms: float
    peak_bytes: int
    predicted_ms: float
    low_ms: float
    high_ms: float
    predicted_kernels_ms: float
    predicted_peak_bytes: float
    roofline_ms: float
    calibrated_ms: float | None = None
    """The prediction with the measurements of ``skyline calibrate`` on this GPU."""
    calibrated_kernels_ms: float | None = None

    @property
    def inside(self) -> bool:
        """True if the measured step is in the predicted range."""
        return self.low_ms <= self.step_ms <= self.high_ms

    @property
    def bound_by_host(self) -> bool:
        """True if the kernels take less than nine tenths of the measured step."""
        return self.kernels_ms < 0.9 * self.step_ms


def predicted(row: dict[str, object], interpreter: str, calibration: Path | None) -> Prediction:
    """The prediction for one row. Raises SkylineError if the training cannot be traced."""
    device = gpu_named(str(row["gpu"]))
    arguments = [str(row["model"]), str(row["batch"]), "--format", str(row["format"])]
    arguments += ["--channels-last"] if row["channels_last"] else []
    request = CaptureRequest(
        _SCRIPT, tuple(arguments), interpreter=interpreter, gpu=device.name, batch_points=0
    )
    traced = ScriptTracer(request, device, lambda _: None).trace()
    product = timed(traced, device, predictor_for(device))
    roofline = timed(traced, device, predictor_named("roofline"))
    measured = _after_calibration(traced, device, calibration) if calibration is not None else None
    assert product.prediction is not None
    assert roofline.prediction is not None
    step = product.prediction.iteration_ms
    kept = {
        name: row[name] for name in ("model", "batch", "format", "channels_last", "step_ms", "kernels_ms")
    }
    return Prediction(
        **kept,  # type: ignore[arg-type]
        peak_bytes=int(str(row["peak_bytes"])),
        predicted_ms=step.value,
        low_ms=step.low,
        high_ms=step.high,
        predicted_kernels_ms=_kernels_ms(product),
        predicted_peak_bytes=float(product.peak_bytes or 0),
        roofline_ms=roofline.prediction.iteration_ms.value,
        calibrated_ms=measured[0] if measured else None,
        calibrated_kernels_ms=measured[1] if measured else None,
    )


def _after_calibration(traced: Profile, device: GpuSpec, calibration: Path) -> tuple[float, float]:
    """Step and kernels in ms, predicted with the measured operators of a calibration file."""
    with tempfile.TemporaryDirectory() as folder, patch.dict(os.environ, SKYLINE_DATA_DIR=folder):
        calibrated = calibration_folder()
        calibrated.mkdir(parents=True)
        shutil.copy(calibration, calibrated)
        told = timed(traced, device, predictor_for(device))
    assert told.prediction is not None
    return told.prediction.iteration_ms.value, _kernels_ms(told)


def _kernels_ms(profile: Profile) -> float:
    work = (RecordKind.KERNEL, RecordKind.COPY)
    steps = max(1, len(profile.trace.iterations))
    return sum(one.duration_us for one in profile.trace.records if one.kind in work) / 1e3 / steps


def _page(rows: Sequence[Prediction], failed: Sequence[str], first: Sequence[list[str]]) -> str:
    head = [
        "model", "batch", "format", "step, ms", "predicted, ms", "error", "inside", "kernels, ms", "predicted, ms",
        "error", "peak, GB", "error",
    ]  # fmt: skip
    cells = [
        [
            one.model,
            str(one.batch),
            one.format + (", channels last" if one.channels_last else ""),
            f"{one.step_ms:.1f}",
            f"{one.predicted_ms:.1f} ({one.low_ms:.1f} to {one.high_ms:.1f})",
            f"{one.predicted_ms / one.step_ms - 1:+.0%}",
            "yes" if one.inside else "no",
            f"{one.kernels_ms:.1f}",
            f"{one.predicted_kernels_ms:.1f}",
            f"{one.predicted_kernels_ms / one.kernels_ms - 1:+.0%}",
            f"{one.peak_bytes / 1e9:.1f}",
            f"{one.predicted_peak_bytes / one.peak_bytes - 1:+.0%}",
        ]
        for one in rows
    ]
    groups: list[tuple[str, Callable[[Prediction], bool]]] = [
        ("all", lambda one: True),
        ("language models and transformers", lambda one: not _is_convolutional(one)),
        ("convolutional networks", _is_convolutional),
        ("float32", lambda one: one.format == "float32"),
        ("TF32, fp16 and bf16", lambda one: one.format != "float32"),
        ("the GPU bounds the step", lambda one: not one.bound_by_host),
        ("the host bounds the step", lambda one: one.bound_by_host),
    ]
    scored = [one for one in rows if (one.model, one.format) != _SETTING]
    summary = [
        _summary(name, [one for one in scored if chosen(one)])
        for name, chosen in groups
        if any(chosen(one) for one in scored)
    ]
    if any(one.calibrated_ms is not None for one in scored):
        summary += [_summary("all, after `skyline calibrate` there", list(map(_calibrated, scored)))]
    summary += first
    summary_head = ["trainings", "number", "error of the step", "inside", "error of the kernels"]
    summary_head += ["error of the peak", "error of the roofline"]
    parts = [
        table(summary_head, summary),
        table(head, cells),
        *(f"Not predicted: {one}." for one in failed),
    ]  # fmt: skip
    return "\n\n".join(parts)


def _summary(name: str, rows: Sequence[Prediction]) -> list[str]:
    def mean(errors: list[float]) -> str:
        return f"{statistics.fmean(errors):.1%}"

    return [
        name,
        str(len(rows)),
        mean([abs(one.predicted_ms / one.step_ms - 1) for one in rows]),
        f"{sum(one.inside for one in rows)} of {len(rows)}",
        mean([abs(one.predicted_kernels_ms / one.kernels_ms - 1) for one in rows]),
        mean([abs(one.predicted_peak_bytes / one.peak_bytes - 1) for one in rows]),
        mean([abs(one.roofline_ms / one.step_ms - 1) for one in rows]),
    ]


def _calibrated(one: Prediction) -> Prediction:
    """The row with the calibrated prediction in place of the other one. The range moves with it."""
    assert one.calibrated_ms is not None
    assert one.calibrated_kernels_ms is not None
    factor = one.calibrated_ms / one.predicted_ms
    return replace(
        one,
        predicted_ms=one.calibrated_ms,
        low_ms=one.low_ms * factor,
        high_ms=one.high_ms * factor,
        predicted_kernels_ms=one.calibrated_kernels_ms,
    )


def _first_summary(results: Path) -> list[list[str]]:
    path = results / f"{_FIRST}.json"
    if not path.is_file():
        return []
    kept = json.loads(path.read_text(encoding="utf-8"))["figures"]
    rows = [Prediction(**row) for row in kept]
    return [_summary("all, first prediction", [one for one in rows if (one.model, one.format) != _SETTING])]


def _is_convolutional(one: Prediction) -> bool:
    return any(mark in one.model for mark in _CONVOLUTIONAL)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=Path, default=ROWS, help="what gpu_models.py measured")
    parser.add_argument(
        "--interpreter", default=sys.executable, help="a Python with timm and transformers, of their versions"
    )
    parser.add_argument(
        "--calibration", type=Path, metavar="FILE", help="measurements of `skyline calibrate` on this GPU"
    )
    parser.add_argument("--name", default="gpu_models", help="name of the page")
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    machine = Machine.here()
    measured = [json.loads(line) for line in options.rows.read_text(encoding="utf-8").splitlines()]
    rows: list[Prediction] = []
    failed: list[str] = []
    for row in measured:
        if "error" in row:
            continue
        try:
            rows.append(predicted(row, options.interpreter, options.calibration))
        except SkylineError as error:
            failed.append(f"{row['model']} in {row['format']}: {error.message.splitlines()[0]}")
            continue
        one = rows[-1]
        print(
            f"{one.model} {one.format} {one.step_ms:.1f} ms, predicted {one.predicted_ms:.1f}",
            file=sys.stderr,
        )
    first = _first_summary(options.results) if options.rows.resolve() == ROWS else []
    gpu = f"{measured[0]['gpu']}, PyTorch {measured[0]['torch']}"
    body = (
        f"Measured on: {gpu}. Predicted on the machine above, from shapes alone. A step is one forward and backward "
        "pass and an SGD step with momentum on data in the GPU's memory. Its time is the median by "
        "GPU events. "
        f"Errors are means of |predicted / measured - 1|. {_NOTES[options.rows.stem]}\n\n"
        f"{_page(rows, failed, first)}"
    )
    title = "Trainings on a GPU, predicted without it"
    print(write(options.name, title, machine, body, [asdict(one) for one in rows], results=options.results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
