"""A ten-minute check on one GPU: figures of Skyline, compared with the scripts without Skyline.

One training script is run in ten common ways of using a GPU, alone and under Skyline. The check compares the iteration
time and the peak, and tests the recording (all time counted once, every kernel with its launch and line). Then the
card is calibrated. Small models are measured and compared with their predictions. The plain script is predicted with
``--gpu`` of the same card, before and after the calibration. Without a GPU, the page says only that.

The page is written after each script, so that a session that ends early keeps its results. ``--join`` writes the page
from files of earlier sessions on one GPU and checks their recordings again, without running anything.

``--interpreter`` may have the simulated GPU of the tests, to test this script itself. The output is then no
measurement, states that, and is not written to the results.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from machine import Machine
from recording_check import RecordingCheck
from result_file import RESULTS, table, write

from skyline.trace import store

_HERE = Path(__file__).resolve().parent
_SCRIPT = _HERE / "gpu_smoke_training.py"
KINDS = {
    "plain": "a plain loop",
    "slow_host": "8 ms of host work a step",
    "pinned": "copies on a stream of their own",
    "spans": "record_function spans",
    "amp": "float16 with a scaler",
    "compile": "compiled, reduce-overhead",
    "capture": "the whole step in a CUDA graph",
    "nccl": "one rank of NCCL",
    "fork": "a forked child on the GPU first",
    "large": "more than half of the card",
}
_TIME_TOLERANCE, _PEAK_TOLERANCE = 0.05, 0.02
_NO_GPU = "No GPU could be had: nothing was measured."
_PROBE = "import torch; print(torch.cuda.get_device_name() if torch.cuda.is_available() else '')"
_SIMULATED = "Simulated"
_TITLE = "Ten minutes on a GPU"


@dataclass(frozen=True, slots=True)
class SmokeRun:
    """One kind of script, alone and under Skyline. ``misses`` empty: all checks passed."""

    kind: str
    alone_ms: float | None
    skyline_ms: float | None
    alone_peak: float | None
    skyline_peak: float | None
    check: RecordingCheck | None
    misses: tuple[str, ...]


class Smoke:
    """The runs of one session, all in one folder."""

    def __init__(self, interpreter: str, folder: Path, *, small: bool, steps: int, trials_s: float) -> None:
        self._interpreter = interpreter
        self._folder = folder
        self._words = ["--small"] if small else []
        self._steps = steps
        self._trials = ["--budget", str(trials_s)]
        self._environment = dict(os.environ, SKYLINE_DATA_DIR=str(folder / "data"), PYTHONUNBUFFERED="1")

    def gpu(self) -> str:
        """The name of the first GPU. Empty if there is none."""
        asked = self._ran([self._interpreter, "-c", _PROBE], 120)
        return asked.stdout.strip() if asked.returncode == 0 else ""

    def tried(self, kind: str) -> SmokeRun:
        """Run one kind, alone and under Skyline."""
        alone = self._ran(
            [self._interpreter, str(_SCRIPT), kind, "--steps", str(self._steps), *self._words],
            90,
            self._ranks(kind, 29511),
        )
        misses: list[str] = []
        alone_ms, alone_peak = _printed(alone.stdout, "ms a step:"), _printed(alone.stdout, "peak:")
        if alone_ms is None:
            misses.append(f"does not run by itself: {_last_line(alone.stderr)}")
        told, check = None, None
        report = self._folder / f"{kind}.json"
        under = self._skyline(
            ["profile", "--json", str(report), "--output-dir", str(self._folder / kind)],
            [
                "--interpreter",
                self._interpreter,
                "--timeout",
                "60",
                *self._trials,
                str(_SCRIPT),
                kind,
                *self._words,
            ],
            self._ranks(kind, 29512),
        )
        if report.is_file():
            told = json.loads(report.read_text(encoding="utf-8"))
            saved = sorted((self._folder / kind).glob("*.json.gz"))
            check = RecordingCheck.of(store.load(saved[-1])) if saved else None
            misses += check.misses() if check is not None else ["nothing was saved"]
        else:
            misses.append(f"not profiled: {_last_line(under.stderr)}")
        skyline_ms = told["iteration_ms"]["value"] if told else None
        skyline_peak = told["memory"]["peak_bytes"]["value"] if told else None
        misses += _beyond("time", alone_ms, skyline_ms, _TIME_TOLERANCE)
        misses += _beyond("peak", alone_peak, skyline_peak, _PEAK_TOLERANCE)
        return SmokeRun(kind, alone_ms, skyline_ms, alone_peak, skyline_peak, check, tuple(misses))

    def predicted_ms(self, gpu: str, troubles: list[str]) -> float | None:
        """The predicted iteration time of the plain script on this card, without running it."""
        report = self._folder / "predicted.json"
        report.unlink(missing_ok=True)
        ran = self._skyline(
            ["profile", "--no-save", "--gpu", gpu, "--json", str(report)],
            ["--interpreter", self._interpreter, str(_SCRIPT), "plain", *self._words],
        )
        if not report.is_file():
            troubles.append(f"--gpu {gpu}: {_last_line(ran.stderr)}")
            return None
        return float(json.loads(report.read_text(encoding="utf-8"))["iteration_ms"]["value"])

    def calibrate(self, minutes: float) -> str:
        """Measure operators. Returns the error in words, or an empty text."""
        ran = self._skyline(
            ["calibrate", "--minutes", str(minutes), "--device", "cuda"], ["--interpreter", self._interpreter]
        )
        return "" if ran.returncode == 0 else f"calibrate: {_last_line(ran.stderr)}"

    def ground_truth(self, minutes: float) -> str:
        """Compare small models with their predictions. Returns the error in words, or an empty text."""
        command = [sys.executable, str(_HERE / "ground_truth.py"), "--small", "--minutes", str(minutes)]
        command += ["--out", str(self._folder / "data"), "--results", str(self._folder / "ground_truth")]
        ran = self._ran([*command, "--interpreter", self._interpreter, "--no-traces"], 60 * minutes + 120)
        return "" if ran.returncode == 0 else f"ground_truth.py: {_last_line(ran.stderr)}"

    def _skyline(
        self, command: list[str], rest: list[str], variables: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        return self._ran([sys.executable, "-m", "skyline", *command, *rest], 240, variables)

    def _ran(
        self, command: list[str], limit_s: float, variables: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        environment = self._environment | (variables or {})
        try:
            return subprocess.run(
                command, env=environment, capture_output=True, text=True, check=False, timeout=limit_s
            )
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess(command, 1, "", f"took longer than {limit_s:.0f} s")

    @staticmethod
    def _ranks(kind: str, port: int) -> dict[str, str]:
        if kind != "nccl":
            return {}
        one = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1"}
        return one | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}


def _printed(text: str, name: str) -> float | None:
    found = [line.partition(name)[2] for line in text.splitlines() if line.startswith(name)]
    return float(found[-1]) if found else None


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip() if lines else "it said nothing"


def _beyond(what: str, alone: float | None, told: float | None, tolerance: float) -> list[str]:
    if not alone or told is None or abs(told / alone - 1) <= tolerance:
        return []
    return [f"{what} {told / alone - 1:+.0%}"]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--interpreter", default=sys.executable, help="Python that runs the scripts")
    parser.add_argument("--kinds", nargs="*", default=list(KINDS), choices=list(KINDS), metavar="KIND")
    parser.add_argument("--steps", type=int, default=220, help="steps of the runs without Skyline")
    parser.add_argument("--small", action="store_true", help="a model of a size for processors")
    parser.add_argument("--minutes", type=float, default=2.0, help="of calibration, and of ground truth")
    parser.add_argument(
        "--trials", type=float, default=5.0, metavar="S", help="seconds for other batch sizes of each script"
    )
    parser.add_argument(
        "--join",
        type=Path,
        metavar="FILE",
        help="write the page of these figures; the recordings are in the same folder",
    )
    parser.add_argument("--keep", type=Path, help="folder for profiles, calibration and figures")
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    if options.join is not None:
        return _joined(options.join, options.results)
    with tempfile.TemporaryDirectory() as temporary:
        folder = (options.keep or Path(temporary)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        smoke = Smoke(
            options.interpreter,
            folder,
            small=options.small,
            steps=options.steps,
            trials_s=options.trials,
        )
        gpu = smoke.gpu()
        machine = Machine.here()
        if not gpu:
            print(write("gpu_smoke", _TITLE, machine, _NO_GPU, {"gpu": None}, results=options.results))
            return 0
        if gpu.startswith(_SIMULATED) and options.results.resolve() == RESULTS.resolve():
            parser.error("a simulated GPU is no GPU: name a folder of your own with --results")
        print(_sitting(smoke, gpu, machine, options))
    return 0


def _sitting(smoke: Smoke, gpu: str, machine: Machine, options: argparse.Namespace) -> str:
    began = time.monotonic()
    tried: list[SmokeRun] = []
    page = ""
    for kind in options.kinds:
        tried.append(smoke.tried(kind))
        print(f"{kind}: {'; '.join(tried[-1].misses) or 'holds'}", file=sys.stderr)
        page = _written(gpu, tried, machine, options.results, began)
    before = after = None
    troubles: list[str] = []
    if options.minutes > 0:
        before = smoke.predicted_ms(gpu, troubles)
        troubles += [smoke.calibrate(options.minutes), smoke.ground_truth(options.minutes)]
        after = smoke.predicted_ms(gpu, troubles)
    troubles = [trouble for trouble in troubles if trouble]
    if options.minutes > 0:
        page = _written(gpu, tried, machine, options.results, began, before, after, troubles)
    return page


def _written(
    gpu: str,
    tried: list[SmokeRun],
    machine: Machine,
    results: Path,
    began: float,
    before: float | None = None,
    after: float | None = None,
    troubles: list[str] | None = None,
) -> str:
    figures: dict[str, object] = {
        "gpu": gpu,
        "simulated": gpu.startswith(_SIMULATED),
        "kinds": [asdict(one) for one in tried],
        "predicted_ms": {"before": before, "after": after},
        "troubles": troubles or [],
        "minutes": (time.monotonic() - began) / 60,
    }
    body = _page(gpu, tried, before, after, troubles or [])
    return write("gpu_smoke", _TITLE, machine, body, figures, results=results)


def _joined(path: Path, results: Path) -> int:
    """Write the page from stored figures, with the recordings checked again by the current product."""
    kept = json.loads(path.read_text(encoding="utf-8"))
    figures = kept["figures"]
    tried: list[SmokeRun] = []
    for row in figures["kinds"]:
        recording = path.with_name(f"smoke_{row['kind']}.profile.json.gz")
        check = RecordingCheck.of(store.load(recording)) if recording.is_file() else None
        misses = [*_beyond("time", row["alone_ms"], row["skyline_ms"], _TIME_TOLERANCE)]
        misses += _beyond("peak", row["alone_peak"], row["skyline_peak"], _PEAK_TOLERANCE)
        misses += check.misses() if check is not None else []
        tried.append(SmokeRun(**row, check=check, misses=tuple(misses)))
    body = _page(figures["gpu"], tried, None, None, [])
    body += "".join(f"\n\n{note}" for note in figures["notes"])
    figures["kinds"] = [asdict(one) for one in tried]
    print(write("gpu_smoke", _TITLE, Machine(**kept["machine"]), body, figures, results=results))
    return int(any(one.misses for one in tried))


def _page(
    gpu: str, tried: list[SmokeRun], before: float | None, after: float | None, troubles: list[str]
) -> str:
    parts = [f"{gpu}."]
    if gpu.startswith(_SIMULATED):
        parts.append("**These are no measurements: the GPU is the simulated one of the tests.**")
    head = ["script", "alone, ms", "Skyline, ms", "alone, MB", "Skyline, MB", "kernels", "misses"]
    rows = [
        [
            KINDS[one.kind],
            _figure(one.alone_ms, 1),
            _figure(one.skyline_ms, 1),
            _figure(one.alone_peak, 1e6),
            _figure(one.skyline_peak, 1e6),
            str(one.check.kernels) if one.check is not None else "",
            "; ".join(one.misses) or "none",
        ]
        for one in tried
    ]
    parts.append(table(head, rows))
    parts.append(
        f"A miss is a time off by more than {_TIME_TOLERANCE:.0%}, a peak off by more than "
        f"{_PEAK_TOLERANCE:.0%}, a failed run, or a recording that fails its check."
    )
    plain = next((one.alone_ms for one in tried if one.kind == "plain"), None)
    if before is not None or after is not None:
        parts.append(
            f"The plain script, predicted with `--gpu` of this card: {_figure(before, 1)} ms before the "
            f"calibration, {_figure(after, 1)} ms after it. Measured: {_figure(plain, 1)} ms."
        )
    parts += [f"Missed: {trouble}." for trouble in troubles]
    return "\n\n".join(parts)


def _figure(value: float | None, unit: float) -> str:
    return "" if value is None else f"{value / unit:.2f}"


if __name__ == "__main__":
    sys.exit(main())
