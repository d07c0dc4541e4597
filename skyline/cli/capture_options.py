"""Captures started on the command line: options, progress, the script's own output, and saving."""

from __future__ import annotations

import argparse
import importlib
import signal
import threading
from collections.abc import Generator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from skyline.cli.display import Display
from skyline.cli.numbers import device_memory, gigabytes, natural, positive, seconds, seconds_or_none
from skyline.cli.project import fill_in
from skyline.cli.streams import say, write_whole
from skyline.errors import Cancelled, UsageError
from skyline.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from types import FrameType

    from skyline.capture.process import Starter
    from skyline.capture.request import CaptureRequest
    from skyline.launchers.launch import Launch
    from skyline.report.report_cache import CachedReport
    from skyline.trace.profile import Profile


def add_options(
    parser: argparse.ArgumentParser,
    gpu: tuple[str, str] = (
        "NAME",
        "predict for this GPU, which need not be present; nothing runs (to list all: skyline gpus)",
    ),
    budget: str = "--budget",
) -> list[argparse.Action]:
    """The options of a capture, which are the same for every command that can start one.

    ``gpu`` is the name and the help text of ``--gpu``. ``budget`` is the name of the option for trials of a profile.
    """
    group = parser.add_argument_group("profiling")
    return [
        group.add_argument(
            "--device", choices=("auto", "cpu", "cuda"), help="device that the script may use (default: auto)"
        ),
        group.add_argument(
            "--gpu",
            metavar=gpu[0],
            help=gpu[1],
        ),
        group.add_argument(
            "--memory",
            type=device_memory,
            metavar="SIZE",
            help="with --gpu: memory of that GPU, such as 24GB or 24GiB (default: the GPU's own)",
        ),
        group.add_argument(
            "--steps", type=positive, metavar="N", help="smallest number of iterations to time"
        ),
        group.add_argument(
            "--warmup",
            type=natural,
            metavar="N",
            help="warm-up iterations to exclude (default: until iteration times are stable)",
        ),
        group.add_argument(
            "--timeout", type=seconds, metavar="S", help="longest wait for one iteration, in seconds"
        ),
        group.add_argument(
            budget,
            dest="budget",
            type=seconds_or_none,
            metavar="S",
            help="seconds for trials of other batch sizes, threads and number formats, from the first figures to the "
            "end (default: 20; 0: none)",
        ),
        group.add_argument(
            "--interpreter",
            metavar="PYTHON",
            help="Python interpreter that runs the script (default: the one of its environment)",
        ),
        group.add_argument(
            "--ranks",
            type=positive,
            default=1,
            metavar="N",
            help="number of ranks to start, as torchrun would; rank 0 is measured",
        ),
        group.add_argument(
            "--evaluation",
            choices=("replay", "run"),
            default="replay",
            help="evaluation before or between the first steps: replay (default) runs a repeated pass twice, then "
            "returns its last result again; run executes every pass",
        ),
        group.add_argument(
            "--inference",
            action="store_true",
            help="measure each call of the model as an iteration, for a script that evaluates, generates or "
            "serves (automatic "
            "if the script ends without training)",
        ),
        group.add_argument(
            "--side-effects",
            choices=("redirect", "allow"),
            default="redirect",
            help="redirect (default): files that the script writes go to a scratch folder, and experiment trackers "
            "are off; allow: nothing is redirected",
        ),
        group.add_argument(
            "--memory-limit",
            type=gigabytes,
            metavar="GB",
            help="limit of the script's memory (default: 90%% of the free memory)",
        ),
        group.add_argument(
            "--scratch-limit",
            type=gigabytes,
            metavar="GB",
            help="limit of the files that the script writes (default: half of the free disk, at most 20)",
        ),
        group.add_argument(
            "-q",
            "--quiet",
            action="store_true",
            help="print no progress and no notes of Skyline; the output of the script still goes to stderr",
        ),
    ]


def refuse_prediction(options: argparse.Namespace) -> None:
    """Raise UsageError for ``--gpu`` in a command that measures."""
    if options.gpu is not None:
        raise UsageError(
            "--gpu predicts for a GPU that is not present, and this command measures",
            hint=f"Remove --gpu, or predict with: skyline whatif --gpu {options.gpu} SCRIPT",
        )


def check_script(script: Path) -> None:
    """Raise UsageError, with the nearest existing name, if ``script`` cannot be a script."""
    if script.is_dir():
        raise UsageError(f"{script} is a directory", hint="Name the training script in it.")
    if script.exists():
        return
    from difflib import get_close_matches

    from skyline.launchers.launch import is_launcher

    if is_launcher([str(script)]):
        raise UsageError(
            f"{script} starts scripts", hint="Name the script itself, for example: skyline show train.py"
        )
    folder = script.parent
    names = [path.name for kind in ("*.py", "*.ipynb") for path in folder.glob(kind)]
    near = get_close_matches(script.name, names, n=1)
    hint = f"Did you mean {folder / near[0]}?" if near else "Check the path of the script."
    raise UsageError(f"{script} does not exist", hint=hint)


def run_capture(
    script: Path,
    arguments: tuple[str, ...],
    options: argparse.Namespace,
    *,
    module: str = "",
    text: str | None = None,
    working_directory: Path | None = None,
) -> Profile:
    """Profile ``script``. Its output and the progress go to stderr.

    ``text`` runs in place of the file's text. ``working_directory`` is the folder to run in (None: the usual one).
    With ``--gpu`` the script is traced and its times are predicted, as in ``gpu_profile``. If the user interrupts
    after the script itself was measured, this part is kept.
    """
    from skyline.capture.session import capture

    request = replace(
        request_of(script, arguments, options, module=module),
        source_overrides=((str(script), text),) if text is not None else (),
        working_directory=working_directory,
    )
    threading.Thread(target=_import_ahead, name="skyline-imports", daemon=True).start()
    partial: list[Profile] = []

    def measured(profile: Profile) -> None:
        partial.append(profile)
        display.show(profile)

    with running(quiet=options.quiet) as (display, starter):
        try:
            if request.gpu:
                from skyline.predict.gpu_profile import gpu_profile

                return gpu_profile(
                    request,
                    progress=display.progress,
                    output=display.output,
                    on_partial=partial.append,
                    starter=starter,
                )
            return capture(
                request,
                progress=display.progress,
                output=display.output,
                on_partial=measured,
                starter=starter,
            )
        except (KeyboardInterrupt, Cancelled):
            if not partial:
                raise
            interrupted = partial[-1]
    saved = save(interrupted, options)
    raise Cancelled(
        f"interrupted; the measurements so far are saved in {saved.profile}" if saved else "interrupted"
    )


def _import_ahead() -> None:
    """Import the analysis and the what-ifs while the script imports PyTorch, so that the figures appear earlier."""
    for name in ("skyline.analysis.verdict", "skyline.report.build", "skyline.report.cells"):
        importlib.import_module(name)
    from skyline.whatif.registry import whatifs

    whatifs()


def request_of(
    script: Path,
    arguments: tuple[str, ...],
    options: argparse.Namespace,
    *,
    module: str = "",
) -> CaptureRequest:
    """The run configuration of ``script`` from the options, the project's settings and a launcher in the command."""
    check_script(script)
    fill_in(options, script)
    launch: Launch | None = getattr(options, "launch", None)
    if options.gpu is not None and options.device == "cpu":
        raise UsageError("--gpu and --device cpu contradict each other", hint="Use only one of them.")
    if options.gpu is not None and "," in options.gpu:
        raise UsageError(
            "--gpu takes one GPU here", hint=f"Compare several: skyline devices --gpu {options.gpu} {script}"
        )
    if options.gpu is not None and options.inference:
        raise UsageError(
            "--gpu predicts training iterations, and --inference measures calls of a model",
            hint="Use only one of them.",
        )
    if options.memory is not None and options.gpu is None:
        raise UsageError(
            "--memory limits the memory of a predicted GPU, and --gpu is missing",
            hint=f"Add it: skyline profile --gpu h100 --memory 24GB {script}",
        )
    from skyline.capture.request import MOST_PROCESSES, CaptureRequest

    if options.ranks > MOST_PROCESSES:
        raise UsageError(
            f"{options.ranks} ranks are too many for one machine", hint=f"Start at most {MOST_PROCESSES}."
        )
    given = {
        "steps": options.steps,
        "warmup": options.warmup,
        "timeout_s": options.timeout,
        "budget_s": options.budget,
    }
    request = CaptureRequest(
        script=script,
        arguments=arguments,
        interpreter=options.interpreter,
        device=options.device or "auto",
        gpu=options.gpu or "",
        gpu_memory_bytes=options.memory,
        module=module if launch is None else launch.module,
        evaluation=options.evaluation,
        loop="inference" if options.inference else "training",
        ranks=options.ranks,
        side_effects=options.side_effects,
        memory_limit_bytes=options.memory_limit,
        scratch_limit_bytes=options.scratch_limit,
        variables=tuple(options.variables.items()),
        **{name: value for name, value in given.items() if value is not None},
    )
    if getattr(options, "places_only", False):
        request = replace(request, batch_points=0)
    if launch is None:
        return request
    from skyline.launchers.launch import launched

    return launched(request, launch)


@dataclass(frozen=True, slots=True)
class SavedFiles:
    """The paths of a saved profile and its page."""

    profile: Path
    html: Path | None


def save(profile: Profile, options: argparse.Namespace) -> SavedFiles | None:
    """Save as the options request. Returns None if saving is switched off."""
    if getattr(options, "no_save", False):
        return None
    from skyline.trace import store

    directory = getattr(options, "output_dir", None)
    return SavedFiles(store.save(profile, Path(directory) if directory else None), None)


def with_page(saved: SavedFiles, profile: Profile, found: CachedReport) -> SavedFiles:
    """Write the page of a saved profile. Without it, a remark says why it is missing."""
    from skyline.report import html

    page = page_path(saved.profile)
    try:
        write_whole(page, html.render(found.report, found.answers, profile.sources).encode("utf-8"))
    except UsageError as error:
        say(f"skyline: the page was not written: {error.message}")
        return saved
    return SavedFiles(saved.profile, page)


def page_path(saved: Path) -> Path:
    """The path of the HTML page of a saved profile."""
    from skyline.trace.store import SUFFIX

    return saved.with_name(saved.name.removesuffix(SUFFIX) + ".html")


@contextmanager
def running(*, quiet: bool) -> Generator[tuple[Display, Starter], None, None]:
    """The display of several runs of a script, and a starter that imports PyTorch once for all of them."""
    from skyline.capture.warm_pool import WarmPool

    with terminable(), Display(quiet=quiet) as display, closing(WarmPool()) as warm_pool:
        yield display, warm_pool.start


class terminable:
    """Turns SIGTERM into an orderly stop, so that the script's processes end with this process."""

    def __enter__(self) -> None:
        self._old = None
        if threading.current_thread() is threading.main_thread():
            self._old = signal.signal(signal.SIGTERM, self._stop)

    def __exit__(self, *_: object) -> None:
        if self._old is not None:
            signal.signal(signal.SIGTERM, self._old)

    @staticmethod
    def _stop(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt
