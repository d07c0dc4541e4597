"""On which public scripts each what-if is found, predicted and rewritten, and whether the result trains the same.

Each script of ``corpus.toml`` that is named (by default a few of different kinds) is profiled on this machine and, by
shape tracing, for a GPU. Every what-if that applies to either is predicted, and its change made by Skyline's rewrite in
a copy. The copy and the script as it stands are then run with the same seeds for some backward passes, and their losses
compared: the same within 0.1 % for what is ``exact``, within 5 % for ``numerics``, finite for ``convergence``.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from corpus_checkout import NotFetched, checkout
from corpus_environment import NoData, environment, make_data, write_repair
from corpus_script import read_corpus
from machine import Machine
from result_file import RESULTS, table, write

LOSSES = Path(__file__).with_name("loss_runner.py")
DEFAULT = (
    "mnist",
    "vae",
    "imagenet",
    "word_transformer",
    "word_lstm",
    "residual_network",
    "nanogpt",
    "mingpt_adder",
    "makemore",
    "dlrm",
    "unet",
    "pytorch_cifar",
    "dcgan",
    "siamese",
    "lightning_transformer",
    "accelerate_glue",
    "ddp_single_gpu",
)
TOLERANCE = {"exact": 1e-3, "numerics": 5e-2}
GPU = "A100"
BACKWARDS = 12
LIMIT_S = 240.0
Row = dict[str, object]


def examine(task: dict[str, object]) -> list[Row]:
    """What can be asked of one script, and what came of each rewrite."""
    from skyline.analysis.analyse import analyse
    from skyline.analysis.estimate import estimate
    from skyline.capture.request import CaptureRequest
    from skyline.capture.session import capture
    from skyline.errors import SkylineError
    from skyline.predict.gpu_profile import gpu_profile
    from skyline.verification.change import change
    from skyline.whatif.question import Choice, Question
    from skyline.whatif.registry import whatifs

    script, folder = Path(str(task["script"])), Path(str(task["folder"]))
    arguments = tuple(str(one) for one in task["arguments"])  # type: ignore[attr-defined]
    rows: dict[str, Row] = {}
    plain: list[float] | None = None
    for where in ("measured", "predicted"):
        request = CaptureRequest(
            script,
            arguments,
            interpreter=str(task["interpreter"]),
            working_directory=folder,
            batch_points=2 if where == "measured" else 3,
            gpu="" if where == "measured" else GPU,
            settle_s=1.5,
        )
        try:
            made_by = capture if where == "measured" else gpu_profile
            profile = made_by(request, progress=lambda _: None)
            analysis = analyse(profile)
        except SkylineError as failed:
            print(f"{script.name}, {where}: {failed.message}", file=sys.stderr)
            continue
        for name in whatifs():
            answer = estimate(analysis, Question(choices=(Choice(name),)))
            if not answer.applicable or name in rows:
                continue
            row: Row = {
                "name": name,
                "value": answer.value,
                "where": where,
                "semantics": answer.semantics,
                "basis": answer.basis,
                "speedup": answer.speedup,
            }
            rows[name] = row
            try:
                made = change(analysis, Question(choices=(Choice(name, answer.value),)), profile.arguments)
            except SkylineError as refused:
                row["refused"] = refused.message.rpartition("its change cannot be made: ")[2]
                continue
            row["lines"] = sum(
                line[:1] in "+-" for line in made.diff.splitlines() if line[:3] not in ("+++", "---")
            )
            if plain is None:
                plain = losses(task, script, profile.arguments, folder)
            row |= compared(task, made.texts, made.arguments, answer.semantics, plain)
    return list(rows.values())


def compared(
    task: dict[str, object],
    texts: Sequence[tuple[str, str]],
    arguments: tuple[str, ...],
    semantics: str,
    plain: list[float],
) -> Row:
    """Runs the changed script in a copy of its repository."""
    checkout_folder = Path(str(task["checkout"]))
    with tempfile.TemporaryDirectory(dir=checkout_folder.parent) as parent:
        copy = Path(parent) / checkout_folder.name
        shutil.copytree(checkout_folder, copy, copy_function=os.link, symlinks=True)
        for path, text in texts:
            target = copy / Path(path).resolve().relative_to(checkout_folder.resolve())
            target.unlink()
            target.write_text(text, encoding="utf-8", newline="")
        inside = Path(str(task["folder"])).relative_to(checkout_folder)
        script = copy / Path(str(task["script"])).relative_to(checkout_folder)
        changed = losses(task, script, arguments, copy / inside, str(checkout_folder), str(copy))
    count = min(len(plain), len(changed))
    if not count:
        return {"trains": False, "why": "no losses" if plain else "the script as it stands gives no losses"}
    pairs = list(zip(plain[:count], changed[:count], strict=True))
    furthest = max(abs(b - a) / max(abs(a), 1e-2) for a, b in pairs)
    finite = all(math.isfinite(loss) for loss in changed)
    within = furthest <= TOLERANCE.get(semantics, math.inf)
    return {"trains": finite and within, "furthest": furthest, "losses": count}


def losses(
    task: dict[str, object],
    script: Path,
    arguments: Sequence[str],
    folder: Path,
    before: str = "",
    after: str = "",
) -> list[float]:
    """The first losses of a script, fewer where it ends or fails."""
    variables = dict(os.environ)
    if before:
        variables["PYTHONPATH"] = variables.get("PYTHONPATH", "").replace(before, after)
    try:
        done = subprocess.run(
            [str(task["interpreter"]), str(LOSSES), str(BACKWARDS), str(script), *arguments],
            cwd=folder,
            env=variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT_S,
        )
    except subprocess.TimeoutExpired:
        return []
    for line in reversed(done.stdout.splitlines()):
        if line.startswith("[") and line.endswith("]"):
            try:
                found: list[float] = json.loads(line)
            except ValueError:
                continue
            if found:
                return found
    print(f"{script.name}: no losses: {done.stderr.strip()[-300:]}", file=sys.stderr)
    return []


def page(found: dict[str, list[Row]]) -> str:
    """Per what-if: where it was found, where rewritten, where the rewritten script trains as it should."""
    names = sorted({str(row["name"]) for rows in found.values() for row in rows})
    lines: list[list[str]] = []
    for name in names:
        mine = [(script, row) for script, rows in found.items() for row in rows if row["name"] == name]
        written = [(script, row) for script, row in mine if "lines" in row]
        trains = [script for script, row in written if row.get("trains")]
        broken = [script for script, row in written if not row.get("trains")]
        reasons = Counter(str(row["refused"]) for _, row in mine if "refused" in row)
        lines.append(
            [
                f"`{name}`",
                str(len(mine)),
                str(len(written)),
                str(len(trains)),
                ", ".join(trains[:6]) + (" …" if len(trains) > 6 else ""),
                ", ".join(broken),
                "; ".join(f"{reason} ({count})" for reason, count in reasons.most_common(2)),
            ]
        )
    head = ["what-if", "applies to", "rewritten", "trains the same", "on", "does not", "refused because"]
    return (
        f"{table(head, lines)}\n\n{len(found)} scripts: {', '.join(found)}. A what-if is counted once a script, as it "
        f"was found on this machine or else for an {GPU} by shape tracing. `trains the same`: the first {BACKWARDS} "
        "losses of the rewritten script, run on this machine with the same seeds, are those of the script unchanged "
        "within 0.1 % (exact) or 5 % (numerics), or finite (convergence). Dropout is off in both: some changes draw "
        "its random numbers otherwise."
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", default=list(DEFAULT))
    parser.add_argument("--interpreter", default=sys.executable, help="the Python that runs the scripts")
    parser.add_argument("--scratch", type=Path, default=Path(tempfile.gettempdir(), "skyline-corpus"))
    parser.add_argument("--mirror", type=Path, help="a folder of bare clones")
    parser.add_argument("--limit", type=float, default=900.0, help="seconds for one script in all")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--task", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.task:
        print("\n" + json.dumps(examine(json.loads(options.task))))
        return 0
    machine = Machine.here()
    scratch = options.scratch.resolve()
    repair = scratch / "environment"
    write_repair(repair, options.interpreter)
    kept = scratch / "whatif_rewrites.json"
    found: dict[str, list[Row]] = json.loads(kept.read_text("utf-8")) if kept.exists() else {}
    for script in read_corpus():
        if script.name not in options.names:
            continue
        try:
            folder = checkout(script.repository, script.commit, scratch / "checkouts", options.mirror)
            variables = environment(script, folder, repair, os.cpu_count() or 1)
            make_data(script, folder, options.interpreter, variables)
        except (NotFetched, NoData) as reason:
            print(f"{script.name}: {reason}", file=sys.stderr)
            continue
        task = {
            "script": str(folder / script.path),
            "folder": str(script.working_directory(folder)),
            "checkout": str(folder),
            "arguments": script.arguments,
            "interpreter": options.interpreter,
        }
        try:
            done = subprocess.run(
                [sys.executable, __file__, "--task", json.dumps(task)],
                env=variables,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                text=True,
                check=False,
                timeout=options.limit,
            )
            found[script.name] = json.loads(done.stdout.splitlines()[-1])
        except (subprocess.TimeoutExpired, ValueError, IndexError) as error:
            print(f"{script.name}: {type(error).__name__}", file=sys.stderr)
            continue
        kept.write_text(json.dumps(found, indent=1), encoding="utf-8")
        for row in found[script.name]:
            print(f"{script.name}: {json.dumps(row)}", file=sys.stderr)
    print(
        write(
            "whatif_rewrites",
            "What-ifs on public scripts",
            machine,
            page(found),
            found,
            results=options.results,
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
