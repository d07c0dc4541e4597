"""Mutation testing of what-ifs, simulation and rewrites with mutmut: which changes of the code no test notices.

Takes a sample: some modules of each package, and some of the mutants of these modules, by a fixed seed. The tests of a
module are the file of its name and those that import it, or name its what-if or rewrite. Of these, mutmut runs for each
mutant the ones that reach it. The work happens in a copy of the repository. ``--all`` takes every module and every test
of the three packages.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from machine import Machine
from result_file import RESULTS, table, write

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("rewrite", "simulate", "whatif")
GOAL = 0.8
_KILLED = {1, 3}
_SURVIVED = {0}
_NO_TEST = {5, 33}
_EQUIVALENT = ROOT / "benchmarks" / "mutation_equivalent.json"
"""Mutants that change nothing that a caller can observe, by name, each with the reason."""


@dataclass(frozen=True, slots=True)
class Mutant:
    name: str
    package: str
    outcome: str
    diff: str = ""
    reason: str = ""
    """Why no test can kill it, where it is equivalent."""


def tests_of(module: Path) -> list[str]:
    """The fast tests of a module: the file of its name and those that import it, or name its what-if or rewrite."""
    package = module.relative_to("skyline").parts[0]
    dotted = re.escape(".".join(module.with_suffix("").parts))
    words = [dotted]
    if "catalogue" in module.parts:
        named = re.findall(r'(?m)(?:^NAME = |Keyword\()"(\w+)"', (ROOT / module).read_text(encoding="utf-8"))
        words += [module.stem, *named]
    wanted = re.compile(rf"\b(?:{'|'.join(words)})\b")
    return [
        str(file.relative_to(ROOT))
        for file in sorted((ROOT / "tests" / "core" / package).glob("test_*.py"))
        if file.name == f"test_{module.stem}.py" or wanted.search(file.read_text(encoding="utf-8"))
    ]


def modules(count: int, chance: random.Random, named: Sequence[str]) -> list[Path]:
    """So many modules of each package, of those that have fast tests."""
    chosen: list[Path] = []
    for package in PACKAGES:
        files = sorted((ROOT / "skyline" / package).rglob("*.py"))
        known = [path.relative_to(ROOT) for path in files if path.name != "__init__.py"]
        own = [module for module in known if str(module) in named]
        rest = [module for module in known if module not in own and tests_of(module)]
        chosen += [*own, *chance.sample(rest, max(0, min(count - len(own), len(rest))))]
    return chosen


def copied(folder: Path, mutated: Sequence[str], tests: Sequence[str]) -> None:
    """The tracked files, with mutmut told what to mutate and which tests to run."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in listed.splitlines():
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, folder / name)
    project = folder / "pyproject.toml"
    text = project.read_text(encoding="utf-8")
    for key, values in (("only_mutate", mutated), ("pytest_add_cli_args_test_selection", tests)):
        text, made = re.subn(rf"(?m)^{key} = .*$", f"{key} = {json.dumps(list(values))}", text)
        if made != 1:
            raise SystemExit(f"mutation: [tool.mutmut] of pyproject.toml has no one line {key}")
    project.write_text(text, encoding="utf-8")


def mutmut(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    program = [str(Path(sys.executable).parent / "mutmut"), *arguments]
    shared = os.environ.get("SKYLINE_SHARED_DATA", str(ROOT.parent / "shared" / "data"))
    environment = {**os.environ, "SKYLINE_SHARED_DATA": shared}
    return subprocess.run(program, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def exit_codes(folder: Path) -> dict[str, int | None]:
    """By mutant; None for one that was not tried."""
    found: dict[str, int | None] = {}
    for path in sorted((folder / "mutants").rglob("*.meta")):
        found |= json.loads(path.read_text(encoding="utf-8"))["exit_code_by_key"]
    return found


def outcome_of(code: int | None) -> str:
    if code in _KILLED:
        return "killed"
    if code in _SURVIVED:
        return "survived"
    if code in _NO_TEST:
        return "no test"
    return "not tried" if code is None else "timed out"


def tried(folder: Path, count: int, chance: random.Random) -> list[Mutant]:
    first = mutmut(folder, "run", "no.such.mutant")
    everything = sorted(exit_codes(folder))
    if not everything:
        raise SystemExit(f"mutation: no mutants were made\n{first.stdout[-3000:]}{first.stderr[-3000:]}")
    by_package = {
        package: [name for name in everything if name.startswith(f"skyline.{package}.")]
        for package in PACKAGES
    }
    chosen = [
        name
        for names in by_package.values()
        for name in sorted(chance.sample(names, min(len(names), count // len(PACKAGES))))
    ]
    before = exit_codes(folder)
    open_ones = [name for name in chosen if before[name] is None or before[name] in _SURVIVED | _NO_TEST]
    ran = mutmut(folder, "run", "--max-children", "2", *open_ones)
    codes = exit_codes(folder)
    if left := sum(codes[name] is None for name in chosen):
        said = f"{ran.stdout[-3000:]}{ran.stderr[-3000:]}"
        raise SystemExit(f"mutation: {left} of {len(chosen)} mutants were not tried\n{said}")
    equivalent: dict[str, str] = (
        json.loads(_EQUIVALENT.read_text(encoding="utf-8")) if _EQUIVALENT.exists() else {}
    )
    found: list[Mutant] = []
    for name in chosen:
        outcome = outcome_of(codes[name])
        diff = mutmut(folder, "show", name).stdout if outcome in ("survived", "no test") else ""
        reason = equivalent.get(name, "") if outcome == "survived" else ""
        found.append(Mutant(name, name.split(".")[1], "equivalent" if reason else outcome, diff, reason))
    return found


def page(found: Sequence[Mutant], chosen: Sequence[Path], seed: int) -> tuple[str, float]:
    rows: list[list[str]] = []
    missed: list[str] = []
    outcomes = ("killed", "timed out", "survived", "no test", "equivalent")
    for package in (*PACKAGES, "all"):
        own = Counter(one.outcome for one in found if package in (one.package, "all"))
        judged = sum(own.values()) - own["equivalent"]
        noticed = own["killed"] + own["timed out"]
        share = noticed / judged if judged else 0.0
        if share < GOAL and package != "all":
            missed.append(package)
        rows.append([package, str(judged), *(str(own[one]) for one in outcomes), f"{share:.0%}"])
    head = ["package", "mutants", *outcomes, "noticed"]
    body = table(head, rows)
    body += f"\n\nNoticed: killed or timed out, of those that are not equivalent. The goal is {GOAL:.0%}: "
    body += f"missed by {', '.join(missed)}." if missed else "met by each package."
    body += f"\n\nSeed {seed}. Modules: {', '.join(f'`{module}`' for module in chosen)}."
    for title, outcome in (("Survivors", "survived"), ("Reached by no test", "no test")):
        left = [one for one in found if one.outcome == outcome]
        if left:
            body += f"\n\n## {title}\n"
            body += "".join(f"\n`{one.name}`\n\n```diff\n{_changes(one.diff)}\n```\n" for one in left)
    equal = [one for one in found if one.outcome == "equivalent"]
    if equal:
        body += "\n\n## Equivalent\n\n" + "\n".join(f"- `{one.name}`: {one.reason}" for one in equal)
    return body, share


def _changes(diff: str) -> str:
    lines = [line for line in diff.splitlines() if line[:1] in "+-" and line[:3] not in ("+++", "---")]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mutants", type=int, default=90, help="in all packages together")
    parser.add_argument("--modules", type=int, default=3, help="of each package")
    parser.add_argument("--module", action="append", default=[], help="a module that belongs to the sample")
    parser.add_argument("--all", action="store_true", help="every module, every mutant, every test; hours")
    parser.add_argument(
        "--folder", type=Path, help="keeps the copy here: the next run tries what is left over"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the result files")
    options = parser.parse_args()
    chance = random.Random(options.seed)
    chosen = modules(10_000 if options.all else options.modules, chance, options.module)
    tests = sorted({test for module in chosen for test in tests_of(module)})
    if options.all:
        tests = [f"tests/core/{package}" for package in PACKAGES]
    with tempfile.TemporaryDirectory() as temporary:
        folder: Path = options.folder or Path(temporary) / "skyline"
        folder.mkdir(parents=True, exist_ok=True)
        copied(folder, [str(module) for module in chosen], tests)
        found = tried(folder, 10**9 if options.all else options.mutants, chance)
    body, share = page(found, chosen, options.seed)
    figures = {"seed": options.seed, "modules": [str(one) for one in chosen]}
    figures |= {"mutants": [asdict(one) for one in found]}
    print(
        write(
            "mutation",
            "Mutants that the tests notice",
            Machine.here(),
            body,
            figures,
            results=options.results,
        )
    )
    return 0 if share >= GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
