"""Checks what-ifs on public scripts: if they are found, predicted and rewritten, and if the result trains equally.

Each named script of ``corpus.toml`` (by default a few of different kinds) is profiled on this machine and, by shape
tracing, for a GPU. Every what-if that applies to either is predicted, and Skyline's rewrite makes its change in a copy.
The copy and the unchanged script then run with the same seeds for some backward passes, and their losses are compared:
equal within 0.1 % for ``exact`` changes, within 5 % for ``numerics``, finite for ``convergence``. An exact change with
a larger difference is tried again in double precision on both sides: a script that amplifies the last bits of its
numbers agrees there, and a script that computes something else does not.

A rewrite whose copies trained on ``--enough`` scripts is not run on further scripts, only found, predicted and written.
Results are stored below ``--scratch``, script by script, and not computed twice, so that a stopped run can continue.
``--again`` repeats the named scripts.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from corpus_checkout import NotFetched, checkout
from corpus_environment import NoData, environment, last_line, make_data, write_repair
from corpus_script import CorpusScript, read_corpus
from machine import Machine
from result_file import RESULTS, write
from whatif_page import Row, page

LOSSES = Path(__file__).with_name("loss_runner.py")
DEFAULT = (
    *("mnist", "vae", "dcgan", "imagenet", "word_transformer", "residual_network", "feedforward"),
    *("bidirectional_rnn", "gan", "nanogpt", "mingpt_adder", "makemore", "dlrm", "unet", "unet_classes"),
    *("copy_transformer", "tutorial_transformer", "bert", "adding_problem", "gcn", "pygat", "tiny_diffusion"),
    *(
        "two_layers_autograd",
        "two_layers_function",
        "trans_e",
        "cbow",
        "ddp_mnist",
        "ddp_softmax",
        "ddp_lenet",
    ),
    *("ddp_gpt", "ignite_cifar", "sequence_tagger", "llm_c", "grokking", "imagenet_photos"),
    "super_resolution_photos",
)
TOLERANCE = {"exact": 1e-3, "numerics": 5e-2}
TOLERANCE_DOUBLE = 1e-6
"""Tolerance in double precision, for changes that are equal except for rounding."""
GPU = "A100"
BACKWARDS = 12
LIMIT_S = 600.0
ONE_THREAD = {"OMP_NUM_THREADS": "1"}
"""One thread, because losses are not timed, and on a busy machine threads wait longer than they compute."""


class Task:
    """One script, the way to run it, and the place of its copy while a change is tried."""

    def __init__(self, told: dict[str, object]) -> None:
        self.script, self.folder = Path(str(told["script"])), Path(str(told["folder"]))
        self.checkout = Path(str(told["checkout"]))
        self.arguments = tuple(str(one) for one in told["arguments"])  # type: ignore[attr-defined]
        self.gpu_arguments = tuple(str(one) for one in told["gpu_arguments"])  # type: ignore[attr-defined]
        self.interpreter, self.ranks = str(told["interpreter"]), int(str(told["ranks"]))
        self.rows, self.not_run = Path(str(told["rows"])), frozenset(told["not_run"])  # type: ignore[call-overload]
        self.only, self.passes = tuple(told["only"]), tuple(told["passes"])  # type: ignore[arg-type]
        self._plain: dict[bool, list[float]] = {}
        self._server: subprocess.Popen[str] | None = None

    def plain(self, *, double: bool = False) -> list[float]:
        """The losses of the unchanged script."""
        if double not in self._plain:
            self._plain[double] = self.losses(self.script, self.arguments, self.folder, double=double)
        return self._plain[double]

    def compared(self, texts: Sequence[tuple[str, str]], arguments: tuple[str, ...], semantics: str) -> Row:
        """Run the changed script in a copy of its repository, and compare its losses."""
        with tempfile.TemporaryDirectory(dir=self.checkout.parent, ignore_cleanup_errors=True) as parent:
            copy = Path(parent) / self.checkout.name
            shutil.copytree(self.checkout, copy, copy_function=_linked, symlinks=True)
            for path, text in texts:
                target = copy / Path(path).resolve().relative_to(self.checkout.resolve())
                target.unlink()
                target.write_text(text, encoding="utf-8", newline="")
            inside = self.folder.relative_to(self.checkout)
            script = copy / self.script.relative_to(self.checkout)
            moved = (script, arguments, copy / inside, str(self.checkout), str(copy))
            changed = self.losses(*moved)
            furthest = _furthest(self.plain(), changed)
            if furthest is None:
                plain = self.plain()
                return {
                    "trains": False,
                    "why": "no losses" if plain else "the unchanged script gives no losses",
                }
            within = furthest <= TOLERANCE.get(semantics, math.inf)
            row: Row = {
                "trains": within and all(map(math.isfinite, changed)),
                "furthest": furthest,
                "losses": min(len(self.plain()), len(changed)),
            }
            if not within and semantics == "exact" and self.ranks == 1:
                exactly = _furthest(self.plain(double=True), self.losses(*moved, double=True))
                if exactly is not None:
                    row |= {"furthest_double": exactly, "trains": exactly <= TOLERANCE_DOUBLE}
        return row

    def losses(
        self,
        script: Path,
        arguments: Sequence[str],
        folder: Path,
        before: str = "",
        after: str = "",
        *,
        double: bool = False,
    ) -> list[float]:
        """The first losses of a script. Fewer if it ends or fails."""
        if self.ranks > 1:
            out, errors = self._by_torchrun(script, arguments, folder, before, after)
        else:
            out, errors = self._by_fork(script, arguments, folder, before, after, double)
        for line in reversed(out.splitlines()):
            if line.startswith("[") and line.endswith("]"):
                try:
                    found: list[float] = json.loads(line)
                except ValueError:
                    continue
                if found:
                    return found
        print(f"{script.name}: no losses: {last_line(errors)}", file=sys.stderr)
        return []

    def _by_torchrun(
        self, script: Path, arguments: Sequence[str], folder: Path, before: str, after: str
    ) -> tuple[str, str]:
        variables = os.environ | ONE_THREAD
        if before:
            variables["PYTHONPATH"] = variables.get("PYTHONPATH", "").replace(before, after)
        ranks = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={self.ranks}"]
        return _run(
            [self.interpreter, *ranks, str(LOSSES), str(BACKWARDS), str(script), *arguments],
            folder,
            variables,
        )

    def _by_fork(
        self,
        script: Path,
        arguments: Sequence[str],
        folder: Path,
        before: str,
        after: str,
        double: bool,
    ) -> tuple[str, str]:
        """Run in a fork of a process that has already imported PyTorch."""
        if self._server is None:
            self._server = subprocess.Popen(
                [self.interpreter, str(LOSSES), "--serve"],
                env=os.environ | ONE_THREAD,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        with tempfile.TemporaryDirectory() as scratch:
            out, errors = Path(scratch, "out"), Path(scratch, "errors")
            asked = {
                "count": BACKWARDS,
                "limit_s": LIMIT_S,
                "script": str(script),
                "arguments": list(arguments),
                "folder": str(folder),
                "before": before,
                "after": after,
                "double": double,
                "out": str(out),
                "errors": str(errors),
            }
            assert self._server.stdin is not None
            assert self._server.stdout is not None
            self._server.stdin.write(json.dumps(asked) + "\n")
            self._server.stdin.flush()
            self._server.stdout.readline()
            told = [
                path.read_text("utf-8", errors="replace") if path.exists() else "" for path in (out, errors)
            ]
        return told[0], told[1]

    def close(self) -> None:
        """End the process that runs scripts."""
        if self._server is not None:
            self._server.kill()
            self._server.wait()


def _furthest(plain: Sequence[float], changed: Sequence[float]) -> float | None:
    """The largest relative difference of two losses. None if one side has none."""
    pairs = list(zip(plain, changed, strict=False))
    return max((abs(b - a) / max(abs(a), 1e-2) for a, b in pairs), default=None)


def _linked(source: str, target: str) -> None:
    """Copy a file, so that the script's writes do not change the original. Only large files are shared by a link."""
    if os.path.getsize(source) > 1 << 20:
        os.link(source, target)
    else:
        shutil.copy2(source, target)


def _run(command: list[str], folder: Path, variables: dict[str, str]) -> tuple[str, str]:
    """Output and errors of a command. A run that takes too long is ended with its descendants."""
    with (
        tempfile.TemporaryFile("w+", errors="replace") as out,
        tempfile.TemporaryFile("w+", errors="replace") as errors,
    ):
        running = subprocess.Popen(
            command,
            cwd=folder,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=errors,
            start_new_session=True,
        )
        try:
            running.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            errors.write(f"\nended after {LIMIT_S:.0f} s\n")
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGKILL)
            running.wait()
        out.seek(0)
        errors.seek(0)
        return out.read(), errors.read()


def examine(task: Task) -> None:
    """Examine one script: its what-ifs, and the result of each rewrite. Rows are written one by one."""
    from skyline.analysis.analyse import analyse
    from skyline.analysis.estimate import estimate
    from skyline.capture.request import CaptureRequest
    from skyline.capture.session import capture
    from skyline.errors import SkylineError
    from skyline.predict.gpu_profile import gpu_profile
    from skyline.verification.change import change
    from skyline.whatif.question import Choice, Question
    from skyline.whatif.registry import whatifs

    rows: dict[str, Row] = {}
    for where in task.passes if task.ranks == 1 else ("measured",):
        on_gpu = where == "predicted"
        request = CaptureRequest(
            task.script,
            task.gpu_arguments if on_gpu else task.arguments,
            interpreter=task.interpreter,
            working_directory=task.folder,
            batch_points=0 if on_gpu else 1,
            gpu=GPU if on_gpu else "",
            ranks=task.ranks,
            settle_s=1.5,
        )
        try:
            made_by = gpu_profile if on_gpu else capture
            analysis = analyse(made_by(request, progress=lambda _: None))
        except SkylineError as failed:
            print(f"{task.script.name}, {where}: {failed.message}", file=sys.stderr)
            continue
        for name in task.only or whatifs():
            answer = estimate(analysis, Question(choices=(Choice(name),)))
            if not answer.applicable or name in rows:
                continue
            row: Row = {
                "name": name,
                "value": answer.value,
                "where": where,
                "semantics": answer.semantics,
                "provenance": answer.provenance,
                "speedup": answer.speedup,
            }
            rows[name] = row
            question = Question(choices=(Choice(name, answer.value),))
            given = analysis.profile.arguments
            try:
                made = change(analysis, question, given)
            except SkylineError as refused:
                row["refused"] = refused.message.rpartition("its change cannot be made: ")[2]
            else:
                row["lines"] = sum(
                    line[:1] in "+-" for line in made.diff.splitlines() if line[:3] not in ("+++", "---")
                )
                arguments = task.arguments if made.arguments == given else made.arguments
                if name not in task.not_run:
                    row |= task.compared(made.texts, arguments, answer.semantics)
            task.rows.write_text(json.dumps(list(rows.values())), encoding="utf-8")
            print(f"{task.script.name}: {json.dumps(row)}", file=sys.stderr)
    task.rows.write_text(json.dumps(list(rows.values())), encoding="utf-8")


def tried(
    script: CorpusScript, options: argparse.Namespace, repair: Path, trained: Counter[str]
) -> list[Row] | None:
    """The rows of one script. None if it is not available, or if it took too long to give any."""
    scratch: Path = options.scratch.resolve()
    try:
        folder = checkout(script.repository, script.commit, scratch / "checkouts", options.mirror)
        variables = environment(script, folder, repair, os.cpu_count() or 1)
        make_data(script, folder, options.interpreter, variables)
    except (NotFetched, NoData) as reason:
        print(f"{script.name}: {reason}", file=sys.stderr)
        return None
    rows = scratch / f"whatif_rewrites.{script.name}.json"
    rows.unlink(missing_ok=True)
    task = {
        "script": str(folder / script.path),
        "folder": str(script.working_directory(folder)),
        "checkout": str(folder),
        "arguments": script.arguments,
        "gpu_arguments": script.arguments if script.gpu_arguments is None else script.gpu_arguments,
        "interpreter": options.interpreter,
        "ranks": script.ranks,
        "rows": str(rows),
        "not_run": [name for name, count in trained.items() if count >= options.enough],
        "only": options.only,
        "passes": [options.where] if options.where else ["measured", "predicted"],
    }
    command = [sys.executable, __file__, "--task", json.dumps(task)]
    try:
        subprocess.run(command, env=variables, stdin=subprocess.DEVNULL, check=False, timeout=options.limit)
    except subprocess.TimeoutExpired:
        print(f"{script.name}: not done after {options.limit:.0f} s", file=sys.stderr)
    if not rows.exists():
        return None
    found: list[Row] = json.loads(rows.read_text("utf-8"))
    rows.unlink()
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", default=list(DEFAULT))
    parser.add_argument("--interpreter", default=sys.executable, help="the Python that runs the scripts")
    parser.add_argument("--scratch", type=Path, default=Path(tempfile.gettempdir(), "skyline-corpus"))
    parser.add_argument("--mirror", type=Path, help="a folder of bare clones")
    parser.add_argument("--limit", type=float, default=1200.0, help="seconds for one script in total")
    parser.add_argument("--enough", type=int, default=99, help="largest number of scripts per rewrite")
    parser.add_argument("--again", action="store_true", help="repeat the named scripts")
    parser.add_argument("--only", nargs="*", default=[], help="what-ifs to run; the rows of others are kept")
    parser.add_argument(
        "--where", choices=("measured", "predicted"), help="only on this machine, or only for a GPU"
    )
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--task", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.task:
        # Exit normally on SIGTERM, so that the running scripts are ended too.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
        with contextlib.closing(Task(json.loads(options.task))) as task:
            examine(task)
        return 0
    from skyline.whatif.registry import whatifs

    machine = Machine.here()
    repair = options.scratch.resolve() / "environment"
    write_repair(repair, options.interpreter)
    kept = options.scratch.resolve() / "whatif_rewrites.json"
    found: dict[str, list[Row]] = json.loads(kept.read_text("utf-8")) if kept.exists() else {}
    corpus = {script.name: script for script in read_corpus()}
    for name in options.names:
        if name in found and not options.again and not options.only:
            continue
        begin = time.monotonic()
        others = (row for other, rows in found.items() if other != name for row in rows)
        rows = tried(
            corpus[name], options, repair, Counter(str(row["name"]) for row in others if row.get("trains"))
        )
        if rows is not None:
            stay = [row for row in found.get(name, []) if options.only and row["name"] not in options.only]
            if rows or stay or not options.only:
                found[name] = [*stay, *rows]
            kept.write_text(json.dumps(found, indent=1), encoding="utf-8")
            print(f"{name}: {len(rows)} rows, {time.monotonic() - begin:.0f} s", file=sys.stderr)
    body = page({name: found[name] for name in corpus if name in found}, tuple(whatifs()), GPU, BACKWARDS)
    print(
        write("whatif_rewrites", "What-ifs on public scripts", machine, body, found, results=options.results)
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
