"""Trains scripts rewritten by ``data_parallel=2`` with two ranks, and the unchanged scripts with twice the batch.

    python benchmarks/data_parallel_losses.py [NAMES...] [--mirror FOLDER]

The three examples and scripts of ``corpus.toml`` are copied, and ``skyline apply data_parallel=2`` changes each copy.
The copy then runs with two processes started by ``torchrun`` (gloo), with one process, and without ``torchrun``. It is
compared with the unchanged script; ``joined_ranks.py`` gives both sides the same samples in the same order. The loss
of two ranks is the mean of their losses. The control is the script at its own batch size, which sees other samples in
each update.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from corpus_checkout import NotFetched, checkout
from corpus_environment import NoData, environment, last_line, make_data, write_repair
from corpus_script import read_corpus
from machine import Machine
from result_file import RESULTS, table, write

_EXAMPLES = ("small_gpt", "image_classifier", "recommender")
_PUBLIC = (
    "bigram",
    "feedforward",
    "residual_network",
    "super_resolution",
    "bidirectional_rnn",
    "mnist",
    "dcgan",
)
_RUNNER = Path(__file__).with_name("joined_ranks.py")
_RANKS, _BACKWARDS, _LIMIT_S = 2, 20, 900.0
_TORCHRUN = ("-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={_RANKS}")
_NOTE = """\
{ranks} ranks with gloo, compared with the script at {ranks} times its batch, over the first {backwards}
updates.

- Both sides read the same samples, in the order of `DistributedSampler`.
- Dropout is off. The randomness of a sample (crops, noise) is seeded by its number.
- Batch normalization uses the samples of each rank. The script at twice the batch therefore normalizes even
  and odd samples separately.
- The loss of the ranks is the mean of their losses.
- `largest difference` is the largest over all updates, relative to the script's own value, for the loss and
  for the norm of the gradients.
- `one process` compares the rewritten script without torchrun with the script at its own batch.
- `control` compares the script at its own batch with the script at twice the batch. The comparison must
  detect this difference.
- `eight bytes` is the difference in float64, where rounding is about 1e-16. Scripts that name float32 in
  their source cannot run in float64.
"""


@dataclass(frozen=True, slots=True)
class Script:
    """One script in its own writable folder, with the arguments and interpreter that it runs with."""

    name: str
    path: Path
    folder: Path
    arguments: tuple[str, ...]
    variables: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Run:
    """The record of one run: the losses of each rank's backward passes, and the gradient norms at each update."""

    losses: tuple[tuple[float, ...], ...]
    norms: tuple[float, ...]

    @property
    def mean(self) -> list[float]:
        """The mean loss over all ranks."""
        return [sum(each) / len(each) for each in zip(*self.losses, strict=True)]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one script. ``why`` is the reason if there are no figures."""

    name: str
    why: str = ""
    updates: int = 0
    first: float = 0.0
    last: float = 0.0
    loss: float = 0.0
    norm: float = 0.0
    one_process: float = 0.0
    control: float = 0.0
    double: float | None = None


def run(script: Script, path: Path, *, joined: int, torchrun: bool = False, double: bool = False) -> Run:
    """The losses of a run. ``joined`` is the number of ranks that it stands for; 0 for a run that is a rank itself."""
    with tempfile.TemporaryDirectory() as out:
        starter = _TORCHRUN if torchrun else ()
        command = [sys.executable, *starter, str(_RUNNER), str(_BACKWARDS), str(joined), out, str(path)]
        variables = {**script.variables, "OMP_NUM_THREADS": "1", "DOUBLE": "1" if double else ""}
        _do([*command, *script.arguments], script.folder, variables)
        told = [json.loads(file.read_text("utf-8")) for file in sorted(Path(out).glob("losses.*.json"))]
        return Run(tuple(tuple(each["losses"]) for each in told), tuple(told[0]["norms"]))


def _do(command: Sequence[str], folder: Path, variables: Mapping[str, str]) -> str:
    done = subprocess.run(
        command, cwd=folder, env=variables, capture_output=True, text=True, timeout=_LIMIT_S, check=False
    )
    if done.returncode:
        sys.stderr.write(done.stderr[:4000])
        raise Failed(done.stderr)
    return done.stdout


class Failed(Exception):
    """A run ended with an error. The message is its output."""


def furthest(plain: Sequence[float], changed: Sequence[float]) -> float:
    """The largest difference between the values of a pair, relative to the first."""
    pairs = zip(plain, changed, strict=True)
    return max(abs(b - a) / max(abs(a), 1e-6) for a, b in pairs)


def compared(script: Script) -> Outcome:
    """Rewrite a copy of the script, and compare the two."""
    copy = script.path.with_name(f"{script.path.stem}_in_parallel.py")
    shutil.copyfile(script.path, copy)
    apply = [
        sys.executable,
        "-m",
        "skyline",
        "apply",
        str(copy),
        f"data_parallel={_RANKS}",
        "--budget",
        "0",
        "--",
        *script.arguments,
    ]
    try:
        _do(apply, script.folder, script.variables)
    except Failed as refused:
        lines = [line for line in str(refused).splitlines() if "data_parallel" in line]
        return Outcome(
            script.name,
            lines[0].partition("data_parallel was not applied: ")[2] if lines else last_line(str(refused)),
        )
    ranks = run(script, copy, joined=0, torchrun=True)
    joined = run(script, script.path, joined=_RANKS)
    alone, plain = run(script, copy, joined=0), run(script, script.path, joined=1)
    try:
        double = furthest(
            run(script, script.path, joined=_RANKS, double=True).mean,
            run(script, copy, joined=0, torchrun=True, double=True).mean,
        )
    except Failed:
        double = None
    return Outcome(
        script.name,
        updates=len(joined.norms),
        first=joined.mean[0],
        last=joined.mean[-1],
        loss=furthest(joined.mean, ranks.mean),
        norm=furthest(joined.norms, ranks.norms),
        one_process=furthest(plain.mean, alone.mean),
        control=furthest(joined.mean, plain.mean),
        double=double,
    )


def examples(names: Sequence[str], scratch: Path) -> list[Script]:
    """Copies of the examples."""
    folder = Path(__file__).parent.parent / "examples"
    found: list[Script] = []
    for name in names:
        own = scratch / name
        own.mkdir()
        shutil.copyfile(folder / f"{name}.py", own / f"{name}.py")
        found.append(Script(name, own / f"{name}.py", own, (), dict(os.environ)))
    return found


def public(names: Sequence[str], corpus: Path, mirror: Path | None, scratch: Path) -> list[Script | Outcome]:
    """The scripts of the corpus, copied with their repositories. An outcome for a script that cannot be fetched."""
    repair = corpus / "environment"
    write_repair(repair, sys.executable)
    known = {each.name: each for each in read_corpus()}
    found: list[Script | Outcome] = []
    for name in names:
        script = known[name]
        try:
            folder = checkout(script.repository, script.commit, corpus / "checkouts", mirror)
            variables = environment(script, folder, repair, 1)
            make_data(script, folder, sys.executable, variables)
        except (NotFetched, NoData) as reason:
            found.append(Outcome(name, str(reason)))
            continue
        copy = scratch / name / folder.name
        shutil.copytree(folder, copy, symlinks=True)
        inside = script.working_directory(folder).relative_to(folder)
        found.append(Script(name, copy / script.path, copy / inside, script.arguments, variables))
    return found


def page(outcomes: Sequence[Outcome]) -> str:
    """The table, and the refused scripts."""
    head = [
        *("script", "updates", "loss, first to last", "largest difference: loss", "gradients", "eight bytes"),
        *("one process", "control"),
    ]
    rows = [
        [
            *(each.name, str(each.updates), f"{each.first:.4f} to {each.last:.4f}", f"{each.loss:.1e}"),
            *(f"{each.norm:.1e}", "-" if each.double is None else f"{each.double:.1e}"),
            *(f"{each.one_process:.1e}", f"{each.control:.1e}"),
        ]
        for each in outcomes
        if not each.why
    ]
    refused = [[each.name, each.why] for each in outcomes if each.why]
    parts = [_NOTE.format(ranks=_RANKS, backwards=_BACKWARDS), table(head, rows)]
    if refused:
        parts += ["## Not rewritten", table(["script", "reason"], refused)]
    return "\n\n".join(parts)


def _written(outcomes: Sequence[Outcome], machine: Machine, results: Path) -> str:
    title = "Two ranks compared with one process with twice the batch"
    figures = [asdict(one) for one in outcomes]
    return write("data_parallel_losses", title, machine, page(outcomes), figures, results=results)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="the scripts; by default all, with --also none")
    parser.add_argument("--corpus", type=Path, default=Path(tempfile.gettempdir(), "skyline-corpus"))
    parser.add_argument("--mirror", type=Path, help="a folder of bare clones")
    parser.add_argument(
        "--also", type=Path, nargs="*", default=[], help="results of other runs, to add their rows"
    )
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    machine = Machine.here()
    outcomes = [
        Outcome(**row) for file in options.also for row in json.loads(file.read_text("utf-8"))["figures"]
    ]
    names = options.names or ([] if outcomes else [*_EXAMPLES, *_PUBLIC])
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as parent:
        scratch = Path(parent)
        own = [name for name in names if name in _EXAMPLES]
        others = [name for name in names if name not in _EXAMPLES]
        for each in [
            *examples(own, scratch),
            *public(others, options.corpus.resolve(), options.mirror, scratch),
        ]:
            try:
                outcomes.append(each if isinstance(each, Outcome) else compared(each))
            except (Failed, subprocess.TimeoutExpired) as error:
                outcomes.append(Outcome(each.name, f"a run failed: {last_line(str(error))}"))
            print(outcomes[-1], file=sys.stderr, flush=True)
            _written(outcomes, machine, options.results)
    print(_written(outcomes, machine, options.results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
