"""Mutation testing of what-ifs, simulation and rewrites: finds changes of the code that no test notices.

A seed draws lines from the functions of each package, so that a module counts in proportion to its code. mutmut makes
the mutants of a line, and the seed draws one of them. The tests that reach the line run first, then the other tests of
their files: the fastest first, up to the first failure, and within a budget of processor time. Mutants that change only
the wording of a message or only the argument `strict` of `zip` are not drawn. The work happens in copies of the
repository.

The result file has the first and the latest result of a seed. The first is a held-out score, because nobody has seen
the sample. A later run of the same seed tries the same mutants, found by their text, after tests were added or code was
deleted.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from difflib import SequenceMatcher
from itertools import accumulate
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from coverage import CoverageData
from machine import Machine
from mutation_page import GOAL, PACKAGES, UNNOTICED, page, score, shown
from mutmut.mutation.file_mutation import mutate_file_contents
from result_file import RESULTS, write

ROOT = Path(__file__).resolve().parent.parent
TESTS = ("analysis", "rewrite", "simulate", "traced", "whatif")
"""The fast tests of the packages. Tests of ``analysis`` and ``traced`` also use what-ifs."""
BUDGET_S = 15.0
"""Budget of processor time for the tests of one mutant, in s, by their time without it. The fastest tests are used."""
LIMIT_S = 90
"""Limit of processor time for the tests of one mutant, in s. Waiting for a busy machine does not count."""
_PYTEST = ("-m", "pytest", "-q", "-x", "-n", "0", "-p", "no:cacheprovider", "--hypothesis-profile=ci")
_FAST = ("-m", "not long and not capture", "--ignore=tests/core/whatif/test_laws.py")
"""Options of pytest, without the laws of all answers, which take longer than the budget."""
_EQUIVALENT = Path(__file__).parent / "mutation_equivalent.json"
"""Mutants without an effect that a caller can observe: function, text before and after, and the reason."""


@dataclass(frozen=True, slots=True)
class Change:
    """A mutant identified by its text, so that it stays the same if lines above it are added or removed."""

    file: str
    function: str
    before: str
    after: str

    @property
    def package(self) -> str:
        return self.file.split("/")[1]


@dataclass(frozen=True, slots=True)
class Mutant:
    change: Change
    line: int
    text: str
    """The whole file."""


@dataclass(slots=True)
class Source:
    """A module, with its functions and the lines of their statements."""

    file: str
    text: str = ""
    functions: dict[str, ast.FunctionDef] = field(default_factory=dict[str, ast.FunctionDef])
    classes: dict[str, int] = field(default_factory=dict[str, int])
    """The first line of each class, by name."""
    statements: dict[int, range] = field(default_factory=dict[int, range])
    """The lines of the statement, or of the head of a block, by line within a function."""

    def __post_init__(self) -> None:
        self.text = (ROOT / self.file).read_text(encoding="utf-8")
        tree = ast.parse(self.text)
        for scope in (tree, *(node for node in tree.body if isinstance(node, ast.ClassDef))):
            owner = ""
            if isinstance(scope, ast.ClassDef):
                owner = f"{scope.name}."
                self.classes[scope.name] = scope.lineno
            for node in scope.body:
                if isinstance(node, ast.FunctionDef):
                    self.functions[owner + node.name] = node
                    self._add(node)

    def _add(self, function: ast.FunctionDef) -> None:
        start = function.body[0].end_lineno if ast.get_docstring(function) else function.lineno
        for node in ast.walk(function):
            body = getattr(node, "body", None)
            if not isinstance(node, (ast.stmt, ast.match_case, ast.ExceptHandler)) or node is function:
                continue
            first = node.pattern.lineno if isinstance(node, ast.match_case) else node.lineno
            end = body[0].lineno - 1 if body else getattr(node, "end_lineno", first)
            for line in range(first, max(first, end) + 1):
                if line > (start or 0):
                    self.statements[line] = range(first, max(first, end) + 1)

    def _only(self, lines: set[int]) -> str:
        """The text with only the functions of these lines, at their places. mutmut takes seconds for a long module."""
        own = self.text.splitlines()
        kept = [""] * len(own)
        for name, function in self.functions.items():
            inside = range(function.lineno, (function.end_lineno or function.lineno) + 1)
            if lines.isdisjoint(inside):
                continue
            owner, _, _ = name.rpartition(".")
            if owner:
                kept[self.classes[owner] - 1] = f"class {owner}:"
            first = min((function.lineno, *(one.lineno for one in function.decorator_list)))
            kept[first - 1 : inside.stop - 1] = own[first - 1 : inside.stop - 1]
        return "\n".join(kept) + "\n"

    def mutants(self, lines: set[int]) -> list[Mutant]:
        """The mutants of these lines, without those that change only wording."""
        made = mutate_file_contents(self.file, self._only(lines), lines)
        theirs = {
            node.name: node for node in ast.walk(ast.parse(made.code)) if isinstance(node, ast.FunctionDef)
        }
        written, own = made.code.splitlines(), self.text.splitlines()
        found: list[Mutant] = []
        for name in made.mutant_names:
            plain = name.rpartition("__mutmut_")[0]
            function = plain.removeprefix("xǁ" if "ǁ" in plain else "x_").replace("ǁ", ".")
            original, mutated = theirs[f"{plain}__mutmut_orig"], theirs[name]
            if function not in self.functions or _without_wording(original) == _without_wording(mutated):
                continue
            known = self.functions[function]
            before = own[known.body[0].lineno - 1 : known.end_lineno]
            after = written[mutated.body[0].lineno - 1 : mutated.end_lineno]
            matcher = SequenceMatcher(None, before, after, autojunk=False)
            blocks = [block for block in matcher.get_opcodes() if block[0] != "equal"]
            if not blocks:  # a mutant of the head: of a default value
                continue
            at, until = blocks[0][1], blocks[-1][2]
            grown = len(after) - len(before)
            change = Change(
                self.file,
                function,
                "\n".join(line.strip() for line in before[at:until]),
                "\n".join(line.strip() for line in after[at : until + grown]),
            )
            first = known.body[0].lineno
            text = "\n".join([*own[: first - 1], *after, *own[known.end_lineno :]]) + "\n"
            found.append(Mutant(change, first + at, text))
        return found


class _Wording(ast.NodeTransformer):
    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        """Replace messages: a text with a space in it is a message."""
        return ast.Constant("") if isinstance(node.value, str) and " " in node.value else node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if isinstance(node.func, ast.Name) and node.func.id == "zip":
            node.keywords = [one for one in node.keywords if one.arg != "strict"]
        return self.generic_visit(node)


def _without_wording(function: ast.FunctionDef) -> str:
    copy = ast.parse(ast.unparse(ast.Module([*function.body], [])))
    return ast.dump(_Wording().visit(copy))


def sources() -> dict[str, list[Source]]:
    """The modules by package."""
    return {
        package: [
            Source(str(path.relative_to(ROOT))) for path in sorted((ROOT / "skyline" / package).rglob("*.py"))
        ]
        for package in PACKAGES
    }


def drawn(files: Sequence[Source], seed: int, count: int) -> list[Mutant]:
    """One mutant for each of ``count`` lines."""
    lines = [(source, line) for source in files for line in sorted(source.statements)]
    chance = random.Random(seed)
    chance.shuffle(lines)
    chosen: list[Mutant] = []
    for source, line in lines:
        if len(chosen) == count:
            break
        if candidates := [mutant for mutant in source.mutants({line}) if mutant.line == line]:
            chosen.append(chance.choice(candidates))
    return chosen


def at_home(change: Change, files: Sequence[Source]) -> Change:
    """The change in the present module of its function, if that is another module of the package."""
    homes = [source.file for source in files if change.function in source.functions]
    own = [file for file in homes if file.split("/")[1] == change.package]
    return replace(change, file=own[0]) if len(own) == 1 and change.file not in homes else change


def again(files: Sequence[Source], wanted: Sequence[Change]) -> list[Mutant]:
    """The mutants of these changes that can still be made."""
    found: list[Mutant] = []
    for source in files:
        own = {change for change in wanted if change.file == source.file}
        known: dict[Change, Mutant] = {}
        inside = [node for name, node in source.functions.items() if name in {one.function for one in own}]
        lines = {line for node in inside for line in range(node.lineno, (node.end_lineno or 0) + 1)}
        for mutant in source.mutants(lines) if lines else ():
            known.setdefault(mutant.change, mutant)
        found += [known[change] for change in own if change in known]
    return found


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy of the repository in which tests run."""

    folder: Path

    def fill(self) -> bool:
        """Update the copy. Returns True if anything changed. Files have the dates of the originals."""
        listed = subprocess.run(
            ["git", "ls-files", "-co", "--exclude-standard"],
            cwd=ROOT,
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        names = {name for name in listed.splitlines() if (ROOT / name).is_file()}
        changed = False
        for name in names:
            target = self.folder / name
            if not target.is_file() or target.read_bytes() != (ROOT / name).read_bytes():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, target)
                changed |= name.startswith(("skyline/", "tests/"))
        for top in ("skyline", "tests"):
            for path in (self.folder / top).rglob("*.py"):
                if str(path.relative_to(self.folder)) not in names:
                    path.unlink()
                    changed = True
        return changed

    def environment(self, **variables: str) -> dict[str, str]:
        """The variables of processes that run the tests of this copy."""
        paths = [self.folder, *(self.folder / name for name in ("lsp", "tui", "predictors", "benchmarks"))]
        shared = os.environ.get("SKYLINE_SHARED_DATA", str(ROOT.parent / "shared" / "data"))
        environment = {**os.environ, "SKYLINE_SHARED_DATA": shared, **variables}
        environment["PYTHONPATH"] = os.pathsep.join(map(str, paths))
        return environment

    def run(self, *arguments: str, **variables: str) -> int:
        """Run Python. Returns its exit code."""
        with (self.folder / "output.txt").open("w") as output:
            return subprocess.run(
                [sys.executable, *arguments],
                check=False,
                cwd=self.folder,
                env=self.environment(**variables),
                stdout=output,
                stderr=subprocess.STDOUT,
            ).returncode

    def server(self) -> subprocess.Popen[str]:
        """A process that runs tests of this copy. It writes no bytecode, because that would outlive a mutant."""
        return subprocess.Popen(
            [sys.executable, "-m", "mutation_server"],
            cwd=self.folder,
            env=self.environment(PYTHONDONTWRITEBYTECODE="1"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def outcome(self, mutant: Mutant, reach: Reach, server: subprocess.Popen[str]) -> str:
        path = self.folder / mutant.change.file
        tests = reach.tests(mutant)
        if not tests:
            return "no test"
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            path.write_text(mutant.text, encoding="utf-8")
            asked = [*_PYTEST[2:], *_FAST, *tests], LIMIT_S
            print(json.dumps(asked), file=server.stdin, flush=True)
            code = int(server.stdout.readline())
            stopped = code in (-signal.SIGXCPU, -signal.SIGKILL)
            return "survived" if code == 0 else "timed out" if stopped else "killed"
        finally:
            shutil.copy2(ROOT / mutant.change.file, path)


@dataclass(frozen=True, slots=True)
class Reach:
    """The tests that reach a line, the fastest first."""

    data: CoverageData
    seconds: Mapping[str, float]
    folder: Path
    statements: Mapping[str, Mapping[int, range]]

    @classmethod
    def measured(cls, copy: Copy, files: Sequence[Source]) -> Reach:
        """Measure in one run of the tests without a mutant. The result is stored in the folder of the copies."""
        kept, seconds = copy.folder.parent / "coverage.db", copy.folder.parent / "seconds.json"
        if copy.fill() or not kept.exists() or not seconds.exists():
            named = [f"tests/core/{name}" for name in TESTS]
            only = "--source=" + ",".join(f"skyline/{package}" for package in PACKAGES)
            code = copy.run(
                "-m", "coverage", "run", only, *_PYTEST, "-p", "mutation_map", *_FAST, *named,
                COVERAGE_FILE=str(kept), MUTATION_SECONDS=str(seconds),
            )  # fmt: skip
            if code != 0:
                kept.unlink(missing_ok=True)
                said = (copy.folder / "output.txt").read_text(encoding="utf-8")[-3000:]
                raise SystemExit(f"mutation: tests fail without a mutant\n{said}")
        data = CoverageData(str(kept))
        data.read()
        return cls(
            data,
            json.loads(seconds.read_text(encoding="utf-8")),
            copy.folder,
            {source.file: source.statements for source in files},
        )

    def tests(self, mutant: Mutant) -> list[str]:
        contexts = self.data.contexts_by_lineno(str(self.folder / mutant.change.file))
        lines = self.statements[mutant.change.file].get(mutant.line, range(mutant.line, mutant.line + 1))
        found = {test for line in lines for test in contexts.get(line, ())}
        if found == {""}:
            # The line is reached during an import, so any test of the package may notice.
            found = {test for test in self.seconds if f"/{mutant.change.package}/" in test}
        files = {test.partition("::")[0] for test in found - {""}}
        beside = {test for test in self.seconds if test.partition("::")[0] in files} - found
        fastest = [*self._by_speed(found - {""}), *self._by_speed(beside)]
        spent = accumulate(self.seconds.get(test, 0.0) for test in fastest)
        return [test for test, until in zip(fastest, spent, strict=True) if until <= BUDGET_S] or fastest[:1]

    def _by_speed(self, tests: set[str]) -> list[str]:
        return sorted(tests, key=lambda test: (self.seconds.get(test, 0.0), test))


def tried(mutants: Sequence[Mutant], copies: Sequence[Copy], reach: Reach) -> dict[Change, str]:
    """The outcome by change. Each copy holds one mutant at a time."""
    free: SimpleQueue[tuple[Copy, subprocess.Popen[str]]] = SimpleQueue()
    for copy in copies:
        copy.fill()
        copy.run("-m", "compileall", "-q", "skyline")
        copy.run(*_PYTEST, *_FAST, "--collect-only", *(f"tests/core/{name}" for name in TESTS))
        free.put((copy, copy.server()))

    def one(mutant: Mutant) -> str:
        copy, server = free.get()
        try:
            outcome = copy.outcome(mutant, reach, server)
        finally:
            free.put((copy, server))
        print(
            outcome,
            mutant.change.file,
            mutant.line,
            mutant.change.after[:80],
            sep="\t",
            file=sys.stderr,
            flush=True,
        )
        return outcome

    with ThreadPoolExecutor(len(copies)) as pool:
        outcomes = list(pool.map(one, mutants))
    while not free.empty():
        _, server = free.get()
        server.terminate()
    return {mutant.change: outcome for mutant, outcome in zip(mutants, outcomes, strict=True)}


def equivalents() -> dict[Change, str]:
    rows = json.loads(_EQUIVALENT.read_text(encoding="utf-8")) if _EQUIVALENT.exists() else []
    return {_change(row): row["reason"] for row in rows}


def _change(row: Mapping[str, str]) -> Change:
    return Change(row["file"], row["function"], row["before"], row["after"])


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mutants", type=int, default=60, help="of each package")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--every", metavar="FILE", help="try every mutant of a file; prints the survivors only"
    )
    parser.add_argument("--left", action="store_true", help="try only the survivors of a known sample")
    parser.add_argument("--folder", type=Path, help="folder for copies and coverage of the next sample")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the result files")
    options = parser.parse_args()
    machine = Machine.here()
    path = options.results / "mutation.json"
    stored = json.loads(path.read_text(encoding="utf-8"))["figures"] if path.exists() else {}
    samples: dict[str, Any] = stored.get("samples", {})
    by_package = sources()
    files = [source for own in by_package.values() for source in own]
    known: dict[Change, dict[str, str]] = {
        at_home(_change(row), files): row for row in samples.get(str(options.seed), {}).get("mutants", [])
    }
    wanted = [one for one, row in known.items() if not options.left or row["now"] in UNNOTICED]
    if options.every:
        mutants = [
            mutant
            for source in files
            if source.file == options.every
            for mutant in source.mutants(set(source.statements))
        ]
    elif known:
        mutants = again(files, wanted)
    else:
        mutants = [
            mutant for own in by_package.values() for mutant in drawn(own, options.seed, options.mutants)
        ]
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        copies = [Copy(folder / str(index) / "skyline") for index in range(os.cpu_count() or 1)]
        outcomes = tried(mutants, copies, Reach.measured(copies[0], files))
    reasons = equivalents()
    if options.every:
        print(
            *(
                shown({**asdict(one), "reason": result})
                for one, result in outcomes.items()
                if result in UNNOTICED
            )
        )
        print(*score(list(outcomes.values())))
        return 0
    rows: list[dict[str, str]] = []
    for one in known or [mutant.change for mutant in mutants]:
        reason = reasons.get(one, "")
        result = outcomes.get(one, "deleted" if one in wanted else known[one]["now"] if known else "")
        first = known[one]["first"] if known else result
        if reason:
            result, first = ("equivalent" if kind in UNNOTICED else kind for kind in (result, first))
        rows.append({"package": one.package, **asdict(one), "first": first, "now": result, "reason": reason})
    samples[str(options.seed)] = {"machine": machine.as_json(), "again": bool(known), "mutants": rows}
    title = "Mutants that the tests notice"
    print(write("mutation", title, machine, page(samples), {"samples": samples}, results=options.results))
    shares = [score([row["now"] for row in rows if row["package"] == package])[2] for package in PACKAGES]
    return 0 if min(shares) >= GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
