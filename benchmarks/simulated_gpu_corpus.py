"""Checks recordings of unmodified public training scripts on a simulated GPU.

The times of a simulated GPU say nothing about a real one. The check compares the recording with the script: all time of
its thread is counted once, every kernel has its launch and its line, and the graph replays the recording.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from corpus_checkout import NotFetched, checkout
from corpus_environment import NoData, environment, last_line, make_data, write_repair
from corpus_script import CorpusScript, read_corpus
from machine import Machine
from recording_check import RecordingCheck
from result_file import RESULTS, table, write

from skyline.capture.request import CaptureRequest
from skyline.capture.session import capture
from skyline.errors import SkylineError

SCRIPTS = (
    *("mnist", "mnist_rnn", "vae", "siamese", "dcgan", "imagenet", "gat", "forward_forward"),
    *("word_lstm", "word_transformer", "nanogpt"),
)
_LONGEST_ALONE_S = 60.0
_LONGEST_REASON = 110
_BUILD = Path(__file__).resolve().parent.parent / "tests" / "simulated_gpu" / "build.py"


@dataclass(frozen=True, slots=True)
class Places:
    """The folder of the repositories, the folder of bare clones, and the interpreter with the simulated GPU."""

    checkouts: Path
    mirror: Path | None
    interpreter: Path


@dataclass(frozen=True, slots=True)
class Row:
    """A script with the check of its recording (None: no recording), its misses, or the reason why it was not run.

    ``not_had``: the script or its data could not be fetched, so nothing was tried. If ``not_run`` says that the script
    fails without Skyline, the simulated GPU does not support it.
    """

    script: str
    found: RecordingCheck | None
    misses: tuple[str, ...]
    not_run: str = ""
    not_had: bool = False


def simulated_gpu(folder: Path) -> Path:
    """An interpreter in which PyTorch finds a GPU, made in an empty folder. Raises the builder's NotBuildable."""
    spec = importlib.util.spec_from_file_location("simulated_gpu_build", _BUILD)
    assert spec is not None
    assert spec.loader is not None
    builder = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(builder)
    return builder.interpreter(folder)


def prepared(script: CorpusScript, places: Places) -> CaptureRequest:
    """The request that runs a script, with its data made. Raises NotFetched and NoData."""
    folder = checkout(script.repository, script.commit, places.checkouts, places.mirror)
    repair = places.checkouts / ".environment"
    write_repair(repair, str(places.interpreter))
    variables = environment(script, folder, repair, 1)
    make_data(script, folder, str(places.interpreter), variables)
    own = {name: value for name, value in variables.items() if os.environ.get(name) != value}
    return CaptureRequest(
        folder / script.path,
        script.arguments if script.gpu_arguments is None else script.gpu_arguments,
        interpreter=str(places.interpreter),
        working_directory=script.working_directory(folder),
        variables=tuple(own.items()),
        batch_points=0,
    )


def fails_alone(request: CaptureRequest) -> str:
    """The last line of errors of a script that fails without Skyline. Empty if it trains for a minute."""
    try:
        ended = subprocess.run(
            [str(request.interpreter), str(request.script), *request.arguments],
            cwd=request.working_directory,
            env={**os.environ, **dict(request.variables)},
            capture_output=True,
            text=True,
            check=False,
            timeout=_LONGEST_ALONE_S,
        )
    except subprocess.TimeoutExpired:
        return ""
    return last_line(ended.stderr) if ended.returncode else ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", metavar="NAME", default=SCRIPTS, help="of the corpus")
    parser.add_argument("--checkouts", type=Path, default=Path(tempfile.gettempdir(), "skyline-corpus"))
    parser.add_argument("--mirror", type=Path, help="a folder of bare clones")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the result files")
    options = parser.parse_args()
    machine = Machine.here()
    corpus = {script.name: script for script in read_corpus()}
    rows: dict[str, Row] = {}
    with tempfile.TemporaryDirectory() as folder:
        places = Places(
            options.checkouts.resolve(), options.mirror, simulated_gpu(Path(folder) / "environment")
        )
        for name in options.only:
            rows[name] = looked_at(corpus[name], places)
            print(
                f"{name}: {rows[name].not_run or ', '.join(rows[name].misses) or 'no miss'}",
                file=sys.stderr,
                flush=True,
            )
    body = f"{_page(rows.values())}\n\n{_ABOUT}"
    figures = {name: asdict(row) for name, row in rows.items()}
    write(
        "simulated_gpu_corpus",
        "Public scripts on a simulated GPU",
        machine,
        body,
        figures,
        results=options.results,
    )
    return int(any(row.misses for row in rows.values()))


_ABOUT = """\
The GPU is simulated (`tests/simulated_gpu`). Each of its kernels takes a fixed time, so the times do not
apply to a real GPU. It lacks some operators (fused cells of LSTMs, transposed convolutions, `DataParallel`).

- Covered: the share of the recorded time of the script's thread that rows account for.
- Overlapped: the share that is counted twice.
- A miss is a covered share below 99 %, an overlapped share above 1 %, a kernel without its launch or its
  line, or a replay that is off by 5 %."""


def looked_at(script: CorpusScript, places: Places) -> Row:
    """The check of a script's recording."""
    try:
        request = prepared(script, places)
    except (NotFetched, NoData) as reason:
        return Row(script.title, None, (), str(reason), not_had=True)
    try:
        profile = capture(request, progress=lambda _: None)
    except SkylineError as error:
        if alone := fails_alone(request):
            return Row(script.title, None, (), f"fails without Skyline as well: {alone}")
        return Row(script.title, None, (error.message.splitlines()[0],))
    found = RecordingCheck.of(profile)
    kind = profile.environment.device.kind
    return Row(
        script.title, found, (*found.misses(), *([f"it computed on the {kind}"] if kind != "cuda" else []))
    )


def _short(reason: str) -> str:
    return reason if len(reason) <= _LONGEST_REASON else f"{reason[:_LONGEST_REASON]} …"


def _page(rows: Iterable[Row]) -> str:
    def cells(row: Row) -> tuple[str, ...]:
        found = row.found
        shares = () if found is None else (found.covered, found.overlapped, found.replay_error)
        figures = (
            ("", "", "", "") if found is None else (str(found.kernels), *(f"{one:.2%}" for one in shares))
        )
        return row.script, *figures, _short(row.not_run) or "; ".join(row.misses) or "none"

    head = ("script", "kernels", "covered", "overlapped", "simulation error", "misses")
    return table(head, [cells(row) for row in rows])


if __name__ == "__main__":
    sys.exit(main())
