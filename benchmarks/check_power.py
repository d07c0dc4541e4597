"""Counts for ``skyline check``: detected slowdowns, and false alarms.

A git repository gets two commits of an example. The second commit makes each iteration slower by a given share, or
changes only a comment. ``skyline check`` runs on both in turns. ``--with N`` keeps N other processes busy, as on a
shared runner. The tables count the exit codes. Nothing is discarded.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from busy_programs import busy_programs
from machine import Machine
from result_file import RESULTS, table, write

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
OUTCOMES = {0: "within", 1: "over", 2: "inconclusive"}
_STEP = "optimizer.step()"
_SPIN = """\
import time as _time
_last = [_time.perf_counter()]
def _spend(share):
    now = _time.perf_counter()
    while _time.perf_counter() < now + share * (now - _last[0]):
        pass
    _last[0] = _time.perf_counter()
"""


@dataclass(frozen=True, slots=True)
class Check:
    """One check: the slowdown of the new commit as a share, the outcome, the cost, and the scatter of the pairs."""

    slower: float
    outcome: str
    ratio: float
    starts: int
    took_s: float
    scatter: float = 0.0


def slowed(source: str, share: float) -> str:
    """The script with extra computation after each update, in proportion to the iteration before it."""
    if not share:
        return f"{source}\n# Nothing but a comment.\n"
    lines: list[str] = []
    for line in source.splitlines():
        lines.append(line)
        if line.strip() == _STEP:
            lines.append(f"{line[: len(line) - len(line.lstrip())]}_spend({share})")
    text = "\n".join(lines) + "\n"
    head = "from __future__ import annotations\n"
    return text.replace(head, head + _SPIN, 1) if head in text else _SPIN + text


def git(folder: Path, *words: str) -> None:
    """Run git as an invented author."""
    who = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", "-C", str(folder), *who, *words], check=True, capture_output=True)


def checked(folder: Path, share: float) -> Check:
    """One run of the command in the repository."""
    began = time.monotonic()
    command = [
        sys.executable,
        "-m",
        "skyline.cli.main",
        "check",
        "train.py",
        "--base",
        "HEAD~1",
        "--json",
        "-",
        "-q",
    ]
    done = subprocess.run(command, cwd=folder, capture_output=True, check=False)
    took_s = time.monotonic() - began
    if done.returncode not in OUTCOMES or not done.stdout:
        return Check(share, f"failed: {done.stderr.decode()[-200:]}", 0.0, 0, took_s)
    report = json.loads(done.stdout)
    return Check(
        share,
        OUTCOMES[done.returncode],
        report["ratio"]["value"],
        report["starts"],
        took_s,
        report["scatter"],
    )


def earlier(path: Path) -> list[Check]:
    """The checks of a result file. Empty if there is none."""
    if not path.exists():
        return []
    return [Check(**row) for row in json.loads(path.read_text(encoding="utf-8"))["figures"]]


def page(found: Sequence[Check], machine: Machine, options: argparse.Namespace) -> str:
    """The result files of the checks so far."""
    lines: list[list[str]] = []
    for share in dict.fromkeys(one.slower for one in found):
        own = [one for one in found if one.slower == share]
        counts = Counter(one.outcome.partition(":")[0] for one in own)
        lines.append(
            [
                f"{share:.0%} slower" if share else "a comment",
                str(len(own)),
                *(str(counts[name]) for name in (*OUTCOMES.values(), "failed")),
                f"{min(one.ratio for one in own):.3f} to {max(one.ratio for one in own):.3f}",
                f"{median(one.scatter for one in own):.1%}",
                f"{sum(one.starts for one in own) / len(own):.1f}",
                f"{sum(one.took_s for one in own) / len(own):.0f}",
            ]
        )
    head = [
        "the commit",
        "checks",
        *OUTCOMES.values(),
        "failed",
        "ratio",
        "scatter of a pair, median",
        "mean pairs",
        "mean s",
    ]
    text = (
        f"`{options.example}.py` of the examples, limit 5 %. {options.others} other programs are busy half "
        "the time.\n\n"
        f"{table(head, lines)}"
    )
    title = "Detected slowdowns and false alarms of skyline check"
    return write(options.name, title, machine, text, [asdict(one) for one in found], results=options.results)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=20, help="checks of each kind")
    parser.add_argument("--slower", type=float, default=0.10, help="the injected share")
    parser.add_argument(
        "--with", dest="others", type=int, default=1, help="other programs that are busy half of the time"
    )
    parser.add_argument("--example", default="recommender")
    parser.add_argument("--add", action="store_true", help="keep the checks of the result file")
    parser.add_argument("--name", default="check_power")
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    machine = Machine.here()
    source = (EXAMPLES / f"{options.example}.py").read_text(encoding="utf-8")
    found = earlier(options.results / f"{options.name}.json") if options.add else []
    with tempfile.TemporaryDirectory() as root, busy_programs(options.others):
        folders: dict[float, Path] = {}
        for share in (0.0, options.slower):
            folder = folders[share] = Path(root) / f"{share:g}"
            folder.mkdir()
            git(folder, "init", "-q")
            for text in (source, slowed(source, share)):
                (folder / "train.py").write_text(text, encoding="utf-8")
                git(folder, "add", "-A")
                git(folder, "commit", "-qm", "state")
        for number in range(options.runs):
            for share, folder in folders.items():
                found.append(checked(folder, share))
                print(number, found[-1], file=sys.stderr, flush=True)
                page(found, machine, options)
    print(page(found, machine, options))
    return 0


if __name__ == "__main__":
    sys.exit(main())
