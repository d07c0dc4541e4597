"""Tests that Skyline profiles unmodified public training scripts and notebooks of many styles.

Each script of ``corpus.toml`` is checked out at its pinned commit, gets data of the right format, and is profiled
unmodified. It is also timed by hand, in turns with Skyline's own timing and with a second stopwatch (the null). A
script of several ranks is profiled with all of them, and not timed by hand. A script that Skyline cannot profile is
also run without Skyline. If it fails there too, it does not count, and its own error is reported. A batch
size in the list is compared with the one that Skyline finds, and then changed.

Rows are stored as they are finished, so that the work can be stopped and continued. The page keeps the rows of
earlier runs that were not measured again, each with the date and the machine of its run.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import termios
from pathlib import Path

from corpus_checkout import NotFetched, checkout
from corpus_environment import NoData, environment, make_data, write_repair
from corpus_page import page
from corpus_script import CorpusScript, read_corpus
from machine import Machine, warn_when_busy
from result_file import RESULTS, write

_MEASURE = Path(__file__).with_name("corpus_measure.py")
_NAME = "capture_corpus"
_TIMES = ("headline_s", "gave_up_s", "skyline_ms", "overhead")


def run(script: CorpusScript, options: argparse.Namespace, repair: Path) -> dict[str, object]:
    """The outcome of one script, whatever happens to it."""
    if script.unavailable:
        return {"not_run": script.unavailable}
    try:
        folder = checkout(script.repository, script.commit, options.checkouts, options.mirror)
        variables = environment(script, folder, repair, options.threads)
        make_data(script, folder, options.interpreter, variables)
    except (NotFetched, NoData) as reason:
        return {"not_run": str(reason)}
    task = {
        "script": str(folder / script.path),
        "folder": str(script.working_directory(folder)),
        "arguments": script.arguments,
        "interpreter": options.interpreter,
        "ranks": script.ranks,
        # Several ranks on one machine wait for each other, so the stopwatch of one cannot check a profile.
        "stopwatch": not options.quick and script.ranks == 1,
        "batch_size": script.batch_size,
        "timed": not options.untimed,
    }
    # A terminal of the usual size, because some scripts draw their progress to its width.
    keyboard, terminal = os.openpty()
    termios.tcsetwinsize(terminal, (24, 80))
    process = subprocess.Popen(
        [sys.executable, str(_MEASURE), json.dumps(task)],
        env=variables,
        stdin=terminal,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, errors = process.communicate(timeout=options.limit)
        return json.loads(out)
    except subprocess.TimeoutExpired:
        return {"works": False, "reason": f"no result after {options.limit:.0f} s", "runs_by_hand": True}
    except ValueError:
        return {"works": False, "reason": f"the measurement broke: {errors[-300:]}", "runs_by_hand": True}
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
        os.close(keyboard)
        os.close(terminal)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--interpreter", default=sys.executable, help="the Python that runs the scripts")
    parser.add_argument(
        "--scratch",
        type=Path,
        default=Path(tempfile.gettempdir(), "skyline-corpus"),
        help="kept between runs",
    )
    parser.add_argument(
        "--checkouts", type=Path, help="folder of the repositories (default: in the scratch folder)"
    )
    parser.add_argument(
        "--mirror", type=Path, help="a folder of bare clones, OWNER+NAME.git or OWNER+NAME/repo"
    )
    parser.add_argument("--only", nargs="+", metavar="NAME", help="measure these scripts again")
    parser.add_argument("--failed", action="store_true", help="also scripts that failed last time")
    parser.add_argument("--quick", action="store_true", help="no stopwatch")
    parser.add_argument(
        "--untimed",
        action="store_true",
        help="while other programs run: no stopwatch, and no times in the page",
    )
    parser.add_argument("--threads", type=int, default=1, help="threads of each run")
    parser.add_argument("--limit", type=float, default=420.0, help="seconds for one script in total")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the result files")
    options = parser.parse_args()
    options.quick = options.quick or options.untimed
    options.scratch = options.scratch.resolve()
    options.checkouts = (options.checkouts or options.scratch / "checkouts").resolve()

    corpus = read_corpus()
    if unknown := set(options.only or ()) - {script.name for script in corpus}:
        parser.error(f"not in the corpus: {', '.join(sorted(unknown))}")
    machine = Machine.here()
    warn_when_busy(machine)
    options.scratch.mkdir(parents=True, exist_ok=True)
    repair = options.scratch / "environment"
    mended = write_repair(repair, options.interpreter)
    kept = options.scratch / "rows.json"
    rows: dict[str, dict[str, object]] = json.loads(kept.read_text("utf-8")) if kept.exists() else {}
    for script in corpus:
        wanted = (
            script.name in options.only if options.only else _is_due(script, rows.get(script.name), options)
        )
        if not wanted:
            continue
        row = run(script, options, repair) | {"run": _run_of(machine)}
        if not options.quick:
            row["stopwatch"] = True
        if options.untimed:
            row = {name: value for name, value in row.items() if name not in _TIMES}
        rows[script.name] = row
        kept.write_text(json.dumps(rows, indent=1), encoding="utf-8")
        print(f"{script.name}: {_brief(row)}", file=sys.stderr, flush=True)
    _publish(corpus, rows, machine, options, mended)
    return 0


def _publish(
    corpus: tuple[CorpusScript, ...],
    rows: dict[str, dict[str, object]],
    machine: Machine,
    options: argparse.Namespace,
    mended: str,
) -> None:
    """Write the page: these rows, and rows of earlier runs for the other scripts."""
    earlier = options.results / f"{_NAME}.json"
    figures = json.loads(earlier.read_text("utf-8"))["figures"] if earlier.exists() else {}
    every = figures.get("rows", {}) | rows
    every = {script.name: every[script.name] for script in corpus if script.name in every}
    used = {str(row["run"]) for row in every.values()}
    machines = figures.get("machines", {}) | {_run_of(machine): machine.sentence()}
    machines = {one: machines[one] for one in sorted(used)}
    body = page(corpus, every, machines, mended, options.threads)
    write(
        _NAME,
        "Public training scripts, unmodified",
        machine,
        body,
        {"machines": machines, "rows": every},
        results=options.results,
    )


def _run_of(machine: Machine) -> str:
    """The day and the processor. Scripts measured on the same day and machine count as one run."""
    return f"{machine.when[:10]}, {machine.processor}"


def _is_due(script: CorpusScript, row: dict[str, object] | None, options: argparse.Namespace) -> bool:
    """True if a script must be measured in a run that continues an earlier one."""
    if row is None or ("not_run" in row and not script.unavailable):
        return True
    if "not_run" in row:
        return False
    return not (options.quick or "stopwatch" in row) if row["works"] else options.failed


def _brief(row: dict[str, object]) -> str:
    if "not_run" in row:
        return f"not run: {row['not_run']}"
    if row["works"]:
        timed = f", by hand {row['by_hand_ms']:.1f} ms" if "by_hand_ms" in row else ""
        times = (
            f" headline {row['headline_s']:.1f} s, {row['skyline_ms']:.1f} ms{timed}, overhead {row['overhead']:.2f},"
            if "skyline_ms" in row
            else ""
        )
        batch = f" {row['batch']}" if row.get("batch") else ""
        return f"works,{times} attributed {row['attributed']:.1%}. {row['meaning']}{batch}"
    if not row.get("runs_by_hand", True):
        return f"cannot run here: {row['own_error']}"
    return f"FAILS: {row['reason']}"


if __name__ == "__main__":
    sys.exit(main())
