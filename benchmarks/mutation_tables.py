"""Checks that tests notice a known fault that is inserted again.

``capture_mutations.toml`` (capture of GPUs) and ``whatif_mutations.toml`` (what-ifs on GPUs) list the faults. Each is
a replacement of text in one module, with the tests that notice it. Every such test must first pass on the present
code. Each fault is then made in a temporary copy of the checkout, and the tests run there. A fault is caught if at
least one of them fails, and survives if all of them pass.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from xml.etree import ElementTree

import tomllib
from machine import Machine
from result_file import RESULTS, table, write

REPOSITORY = Path(__file__).resolve().parent.parent
TABLES = ("capture", "whatif")
_LONGEST_S = 900.0
_TESTS_FAILED = 1
"""Pytest's exit code if tests ran and some failed. A higher code means that they did not run."""


class NotMutated(Exception):
    """The text to replace does not occur exactly once, or a test does not pass on the present code."""


@dataclass(frozen=True, slots=True)
class Mutation:
    """A fault: ``old`` becomes ``new`` in ``file``, and at least one of ``tests`` must fail."""

    number: str
    fault: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def apply(self, checkout: Path) -> str:
        """Insert the fault. Returns the module's text without it. Raises NotMutated."""
        path = checkout / self.file
        text = path.read_text(encoding="utf-8")
        if text.count(self.old) != 1:
            raise NotMutated(f"{self.number}: {self.old!r} is {text.count(self.old)} times in {self.file}")
        path.write_text(text.replace(self.old, self.new), encoding="utf-8")
        return text


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a fault on a day: if it was caught, and by which tests."""

    number: str
    fault: str
    file: str
    caught: bool
    by: tuple[str, ...]
    day: str


@dataclass(frozen=True, slots=True)
class Ran:
    """One run of pytest: its exit code, and the result of each test by name."""

    code: int
    results: dict[str, str]
    tail: str

    def named(self, result: str) -> tuple[str, ...]:
        """The tests with this result: ``passed``, ``failed`` or ``skipped``."""
        return tuple(sorted(name for name, found in self.results.items() if found == result))


@dataclass(frozen=True, slots=True)
class MutationTable:
    """The faults of one subject. Result files have the ``name`` and the ``title``."""

    name: str
    title: str
    mutations: tuple[Mutation, ...]

    @classmethod
    def read(cls, subject: str) -> MutationTable:
        """The faults in the order of the file."""
        path = Path(__file__).with_name(f"{subject}_mutations.toml")
        content = tomllib.loads(path.read_text(encoding="utf-8"))
        rows = (Mutation(**{**row, "tests": tuple(row["tests"])}) for row in content["mutation"])
        return cls(path.stem, content["title"], tuple(rows))


def copied(target: Path) -> Path:
    """Copy the files of the checkout that git tracks or does not ignore into an empty folder."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=REPOSITORY, capture_output=True, check=True).stdout
    for name in filter(None, listed.decode().split("\0")):
        source = REPOSITORY / name
        if source.is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target / name)
    return target


def run_tests(checkout: Path, tests: Sequence[str]) -> Ran:
    """Run these tests in a copy of the checkout, each once, in one process."""
    report = checkout / "mutations.xml"
    report.unlink(missing_ok=True)
    folders = [checkout, *(checkout / name for name in ("lsp", "tui", "predictors"))]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders))}
    environment.setdefault("SKYLINE_SHARED_DATA", str(REPOSITORY.parent / "shared" / "data"))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:rerunfailures", "-p", "no:xdist"]
    command += ["-p", "no:cacheprovider", f"--junitxml={report}", *tests]
    try:
        ended = subprocess.run(
            command, cwd=checkout, env=environment, capture_output=True, text=True, check=False,
            timeout=_LONGEST_S,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        # A fault that makes a test hang is noticed by the person who runs it.
        return Ran(_TESTS_FAILED, {"(time limit)": "failed"}, "")
    tail = ended.stdout[-2000:] + ended.stderr[-2000:]
    return Ran(ended.returncode, _results(report) if report.is_file() else {}, tail)


def _results(report: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        kinds = {child.tag for child in case}
        result = "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"
        module = case.get("classname", "").rpartition(".")[2]
        found[f"{module}::{case.get('name')}"] = result
    return found


def as_it_is(checkout: Path, mutations: Iterable[Mutation]) -> None:
    """Run all tests on the code without a fault. Raises NotMutated if one fails, is skipped or does not exist."""
    tests = tuple(dict.fromkeys(test for mutation in mutations for test in mutation.tests))
    probe = "import skyline; print(skyline.__file__)"
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    told = subprocess.run(
        [sys.executable, "-c", probe], env=environment, cwd=checkout, capture_output=True, check=False
    )
    if not told.stdout.decode().startswith(str(checkout)):
        raise NotMutated("the copy of the checkout is not what the tests import")
    ran = run_tests(checkout, tests)
    unfit = (*ran.named("failed"), *ran.named("skipped"))
    if ran.code or unfit or not ran.results:
        raise NotMutated(f"without a fault: {', '.join(unfit) or 'the tests do not run'}\n{ran.tail}")


def outcome_of(checkout: Path, mutation: Mutation) -> Outcome:
    """Insert the fault, run its tests, and remove it. Raises NotMutated if the tests did not run."""
    text = mutation.apply(checkout)
    try:
        ran = run_tests(checkout, mutation.tests)
    finally:
        (checkout / mutation.file).write_text(text, encoding="utf-8")
    if ran.code > _TESTS_FAILED or not ran.results:
        raise NotMutated(f"{mutation.number}: the tests do not run with the fault\n{ran.tail}")
    caught = ran.named("failed")
    day = datetime.now(timezone.utc).date().isoformat()
    return Outcome(mutation.number, mutation.fault, mutation.file, bool(caught), caught, day)


def earlier(faults: MutationTable, results: Path, numbers: Iterable[str]) -> list[Outcome]:
    """The outcomes of an earlier run for the faults that are not tried in this run."""
    path = results / f"{faults.name}.json"
    if not path.is_file():
        return []
    rows = json.loads(path.read_text(encoding="utf-8"))["figures"]["outcomes"]
    known = {mutation.number for mutation in faults.mutations} - set(numbers)
    return [Outcome(**{**row, "by": tuple(row["by"])}) for row in rows if row["number"] in known]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("subject", nargs="?", choices=TABLES, default=TABLES[0])
    parser.add_argument("--only", nargs="+", metavar="NUMBER", help="of the table; the others' rows stay")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the result files")
    options = parser.parse_args()
    machine = Machine.here()
    faults = MutationTable.read(options.subject)
    every = faults.mutations
    mutations = [one for one in every if not options.only or one.number in options.only]
    outcomes = earlier(faults, options.results, [one.number for one in mutations])
    troubles: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        checkout = copied(Path(folder).resolve())
        as_it_is(checkout, mutations)
        for mutation in mutations:
            try:
                outcomes.append(outcome_of(checkout, mutation))
                said = "caught" if outcomes[-1].caught else "SURVIVED"
            except NotMutated as trouble:
                said = str(trouble)
                troubles.append(said.partition("\n")[0])
            print(f"{mutation.number} {mutation.fault}: {said}", file=sys.stderr, flush=True)
    order = [mutation.number for mutation in every]
    outcomes.sort(key=lambda one: order.index(one.number))
    figures = {"outcomes": [asdict(one) for one in outcomes], "troubles": troubles}
    page = _page(outcomes, troubles)
    write(faults.name, faults.title, machine, page, figures, results=options.results)
    return int(bool(troubles) or not all(one.caught for one in outcomes))


_ABOUT = (
    "Each fault is made in a copy of the checkout. Without the fault, all of its tests pass there, none "
    "skipped."
)


def _page(outcomes: Sequence[Outcome], troubles: Sequence[str]) -> str:
    caught = sum(one.caught for one in outcomes)
    rows = [
        [
            one.number,
            one.fault,
            one.file,
            "caught" if one.caught else "survived",
            one.day,
            "; ".join(one.by[:2]),
        ]
        for one in outcomes
    ]
    parts = [
        f"{caught} of {len(outcomes)} faults are caught. {_ABOUT}",
        table(["number", "fault", "module", "result", "tried", "failing tests (two at most)"], rows),
    ]
    return "\n\n".join([*parts, *(f"Not tried: {trouble}." for trouble in troubles)])


if __name__ == "__main__":
    sys.exit(main())
