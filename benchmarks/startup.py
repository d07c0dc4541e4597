"""Times of short commands from start to end or first answer, compared with a bare interpreter.

The profiles are made here: of two scripts in ``examples``, and a small one. A command about a profile is measured as
the first one ("computed": the cache of reports is empty) and as a later one ("cached"), which is also the state after
``skyline profile``.

Every round runs all commands once, in changing order, so that a busy machine slows all of them equally. ``--before``
names the checkout of an earlier version, whose commands then run in turns with these. The wall time depends on the load
of the machine. The processor time of the process and its children is the cost of the command itself. ``--large`` adds a
trace of 1 GB. The traces are copies of the steps of one trace in ``--traces``, one after another.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from machine import Machine, warn_when_busy
from result_file import RESULTS, table, write
from terminal import Terminal

from skyline.interval import median

REPOSITORY = Path(__file__).resolve().parent.parent
_SMALL_PROFILE = REPOSITORY / "tests" / "data" / "linear.profile.json.gz"
_PROFILED = ("image_classifier.py", "small_gpt.py")
"""The scripts in ``examples`` whose profiles are measured, too."""
_TRACE = "hta_v100_resnet50_ddp1.json.gz"
_ENLARGE = """
import sys
from pathlib import Path
from simulator_reading import enlarge
enlarge(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
"""
_ROUNDS = 5
_LONGEST_S = 120.0
_COMMAND = (sys.executable, "-m", "skyline")


@dataclass(frozen=True, slots=True)
class Cost:
    """Wall time and processor time in s, and the peak of resident memory."""

    wall_s: float
    processor_s: float
    peak_bytes: int


@dataclass(frozen=True, slots=True)
class Row:
    """A command, its goal for the wall time, and its costs in each round, also for the earlier version."""

    name: str
    goal_s: float | None
    costs: tuple[Cost, ...]
    before: tuple[Cost, ...] = ()


@dataclass(frozen=True, slots=True)
class Case:
    """A command to measure. ``measure`` runs it once in a folder."""

    name: str
    goal_s: float | None
    measure: Callable[[Path, dict[str, str]], Cost]


def ended(*words: str) -> Callable[[Path, dict[str, str]], Cost]:
    """Measures from the start of a process to its end."""

    def measure(folder: Path, environment: dict[str, str]) -> Cost:
        began = time.perf_counter()
        process = subprocess.Popen(
            words, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        )
        return _waited(process, began, 0)

    return measure


def computed(*words: str) -> Callable[[Path, dict[str, str]], Cost]:
    """Like ``ended``, with an empty cache of reports."""
    run = ended(*words)

    def measure(folder: Path, environment: dict[str, str]) -> Cost:
        shutil.rmtree(Path(environment["XDG_CACHE_HOME"]) / "skyline" / "reports", ignore_errors=True)
        return run(folder, environment)

    return measure


def cached(*words: str) -> Callable[[Path, dict[str, str]], Cost]:
    """Like ``ended``, for the second of two equal commands."""
    run = ended(*words)

    def measure(folder: Path, environment: dict[str, str]) -> Cost:
        run(folder, environment)
        return run(folder, environment)

    return measure


def initialized(folder: Path, environment: dict[str, str]) -> Cost:
    """The cost from the start of a language server to its answer to ``initialize``, including its end."""
    return _answered(folder, environment, 1)


def asked(folder: Path, environment: dict[str, str]) -> Cost:
    """The cost from the start of a language server to its answer to the request after ``initialize``."""
    return _answered(folder, environment, 2)


_MESSAGES = (
    {"id": 1, "method": "initialize", "params": {"processId": None, "capabilities": {}}},
    {"method": "initialized", "params": {}},
    {"id": 2, "method": "skyline/config", "params": {"uri": None}},
)


def _answered(folder: Path, environment: dict[str, str], wanted: int) -> Cost:
    began = time.perf_counter()
    process = subprocess.Popen(
        (*_COMMAND, "lsp"), cwd=folder, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    for message in _MESSAGES:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        process.stdin.flush()
    while (answer := _message(process.stdout)).get("id") != wanted:
        pass
    answered_s = time.perf_counter() - began
    if "result" not in answer:
        raise RuntimeError(f"the server answered {answer}")
    process.kill()
    cost = _waited(process, began, -9)
    return Cost(answered_s, cost.processor_s, cost.peak_bytes)


def _message(stream: IO[bytes]) -> dict[str, Any]:
    length = 0
    while line := stream.readline().strip():
        name, _, value = line.partition(b":")
        length = int(value) if name.lower() == b"content-length" else length
    if not length:
        raise RuntimeError("the server ended without an answer")
    return json.loads(stream.read(length))


def painted(folder: Path, environment: dict[str, str]) -> Cost:
    """The cost from the start of the terminal UI to its first frame with text, possibly before the interface."""
    return _shown(folder, environment, "")


def usable(folder: Path, environment: dict[str, str]) -> Cost:
    """The cost from the start of the terminal UI to its first frame with pages, before its server has answered."""
    return _shown(folder, environment, "Findings")


def _shown(folder: Path, environment: dict[str, str], words: str) -> Cost:
    script = folder / "train.py"
    script.write_text("import time\ntime.sleep(60)\n", encoding="utf-8")
    began = time.perf_counter()
    terminal = Terminal(("env", *_settings(environment), *_COMMAND, "tui", script.name), folder, (100, 30))
    try:
        shown = terminal.until(lambda screen: bool(screen.text.strip()) and words in screen.text, _LONGEST_S)
        fields = Path(f"/proc/{terminal.pid}/stat").read_text(encoding="ascii").rpartition(") ")[2].split()
    finally:
        terminal.close()
    user, system = (int(ticks) / os.sysconf("SC_CLK_TCK") for ticks in fields[11:13])
    return Cost(shown - began, user + system, 0)


def _settings(environment: dict[str, str]) -> list[str]:
    return [f"{name}={value}" for name, value in environment.items() if os.environ.get(name) != value]


def _waited(process: subprocess.Popen[bytes], began: float, status: int) -> Cost:
    _, wait_status, used = os.wait4(process.pid, 0)
    wall_s = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(wait_status)
    if process.returncode != status:
        raise RuntimeError(f"{process.args} ended with {process.returncode}")
    return Cost(wall_s, used.ru_utime + used.ru_stime, used.ru_maxrss << 10)


def about_profile(name: str, profile: Path) -> list[Case]:
    """The commands about one saved profile."""
    commands = (("show",), ("whatif",), ("whatif", "batch_size=48"))
    return [
        Case(
            f"skyline {' '.join(words)}, {name}, {state}",
            0.4,
            measure(*_COMMAND, words[0], str(profile), *words[1:]),
        )
        for words in commands
        for state, measure in (("computed", computed), ("cached", cached))
    ]


def cases(profiles: Sequence[tuple[str, Path]], traces: Sequence[tuple[str, Path, float]]) -> list[Case]:
    """All commands in the order of the page."""
    skyline = _COMMAND
    found = [
        Case("python -c pass", None, ended(sys.executable, "-c", "pass")),
        Case(
            "python, the libraries alone",
            None,
            ended(sys.executable, "-c", "import numpy, msgspec, rich.console"),
        ),
        Case("skyline --help", 0.06, ended(*skyline, "--help")),
        *(case for name, profile in profiles for case in about_profile(name, profile)),
        Case("skyline lsp, initialize", 0.3, initialized),
        Case("skyline lsp, the next request", None, asked),
        Case("skyline tui, first frame", 0.5, painted),
        Case("skyline tui, interface", None, usable),
    ]
    for name, path, goal_s in traces:
        found += [
            Case(f"skyline {command}, a trace of {name}", goal_s, ended(*skyline, command, str(path)))
            for command in ("show", "whatif")
        ]
    return found


def made(folder: Path) -> list[tuple[str, Path]]:
    """The profiles to measure, by name, with their sizes: one small, and those of two scripts, profiled now."""
    small = folder / _SMALL_PROFILE.name
    shutil.copy(_SMALL_PROFILE, small)
    paths = {"a small script": small}
    for name in _PROFILED:
        script = folder / "examples" / name
        script.parent.mkdir(exist_ok=True)
        shutil.copy(REPOSITORY / "examples" / name, script)
        environment = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache-of-profiling")}
        subprocess.run(
            [*_COMMAND, "profile", "--quiet", script.name],
            cwd=script.parent,
            env=environment,
            stdout=subprocess.DEVNULL,
            check=True,
        )
        (paths[name],) = (script.parent / ".skyline").glob(f"{script.stem}-*.profile.json.gz")
    return [(f"{name} ({path.stat().st_size >> 10} kB)", path) for name, path in paths.items()]


def measured(chosen: Sequence[Case], folder: Path, rounds: int, before: Path | None) -> list[Row]:
    """The costs of all cases, round by round. The first round fills the caches and is dropped."""
    versions = [_environment(folder, None), *([_environment(folder, before)] if before else [])]
    costs: dict[str, list[list[Cost]]] = {case.name: [[] for _ in versions] for case in chosen}
    for number in range(rounds + 1):
        for case in chosen if number % 2 else chosen[::-1]:
            for version, environment in enumerate(versions):
                cost = case.measure(folder, environment)
                if number:
                    costs[case.name][version].append(cost)
                    which = " before" if version else ""
                    print(f"{number} {case.name}{which}: {cost}", file=sys.stderr, flush=True)
    return [Row(case.name, case.goal_s, *map(tuple, costs[case.name])) for case in chosen]


def _environment(folder: Path, checkout: Path | None) -> dict[str, str]:
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "SKYLINE_DATA_DIR": str(folder / "data"),
        "XDG_CACHE_HOME": str(folder / ("cache-before" if checkout else "cache")),
        # As for an installed package, modules are compiled once, whatever the setting of this machine.
        "PYTHONPYCACHEPREFIX": str(folder / "bytecode"),
        "PYTHONDONTWRITEBYTECODE": "",
    }
    if checkout is not None:
        folders = (checkout, *(checkout / name for name in ("lsp", "tui", "predictors")))
        environment["PYTHONPATH"] = os.pathsep.join(map(str, folders))
    return environment


def page(rows: Sequence[Row]) -> str:
    """The rows as a table."""
    compared = any(row.before for row in rows)
    sides = ("before", "now") if compared else ("",)
    head = ["command", "goal, s"]
    head += [f"{name} {side}".strip() for name in ("wall, s", "processor, s", "memory, MB") for side in sides]
    cells: list[list[str]] = []
    for row in rows:
        costs = (row.before, row.costs) if compared else (row.costs,)
        cells.append(
            [
                row.name,
                "" if row.goal_s is None else f"{row.goal_s:g}",
                *(_spread([cost.wall_s for cost in one]) for one in costs),
                *(_spread([cost.processor_s for cost in one]) for one in costs),
                *(_largest(one) for one in costs),
            ]
        )
    return (
        "Medians of the rounds, with the minimum and the maximum. The goals are for the wall time of a "
        "machine without other work. The processor time is the minimum for such a machine. A first round is "
        "not counted. It fills the caches of compiled modules and loops, and of the server's answers to "
        '`initialize`. A command about a profile is "computed" with an empty cache of reports, and "cached" '
        "after the same command or after `skyline profile`.\n\n"
        f"{table(head, cells)}"
    )


def _largest(costs: Sequence[Cost]) -> str:
    most = max(cost.peak_bytes for cost in costs)
    return f"{most / 1e6:.0f}" if most else ""


def _spread(values: Sequence[float]) -> str:
    return f"{median(values):.3f} ({min(values):.3f} to {max(values):.3f})"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--traces", type=Path, help="folder of PyTorch profiler traces")
    parser.add_argument("--large", action="store_true", help="a trace of 1 GB, too")
    parser.add_argument("--profile", type=Path, action="append", help="a saved profile (default: made here)")
    parser.add_argument("--rounds", type=int, default=_ROUNDS)
    parser.add_argument("--before", type=Path, help="checkout of an earlier version, measured in turns")
    parser.add_argument("--only", nargs="+", metavar="WORD", help="commands whose names contain one of these")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the result files")
    options = parser.parse_args()
    machine = Machine.here()
    warn_when_busy(machine)
    with tempfile.TemporaryDirectory(prefix="skyline-startup-") as name:
        folder = Path(name)
        sizes = [("30 MB", 30_000_000, 0.8)] + ([("1 GB", 1_000_000_000, 20.0)] if options.large else [])
        traces: list[tuple[str, Path, float]] = []
        for words, size_bytes, goal_s in sizes if options.traces else []:
            path = folder / f"{len(traces)}.json"
            # In a separate process, because the reported peak memory of a child is at least that of its parent.
            subprocess.run(
                [sys.executable, "-c", _ENLARGE, str(options.traces / _TRACE), str(path), str(size_bytes)],
                cwd=Path(__file__).parent,
                check=True,
            )
            traces.append((words, path, goal_s))
        profiles = (
            [(path.name, path.resolve()) for path in options.profile] if options.profile else made(folder)
        )
        chosen = [
            case
            for case in cases(profiles, traces)
            if not options.only or any(word in case.name for word in options.only)
        ]
        rows = measured(chosen, folder, options.rounds, options.before and options.before.resolve())
    figures: list[dict[str, Any]] = [asdict(row) for row in rows]
    print(write("startup", "Start of commands", machine, page(rows), figures, results=options.results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
