"""Measured changes of public scripts predicted again, from their stored profiles, by the present code.

A list that ``unseen_whatifs.py`` measured with ``--keep FOLDER`` leaves a profile of each script and its rows. With
``--store NAME --keep FOLDER`` both are stored in ``results/kept/NAME``, without the text of the scripts. Without
``--store``, every stored profile is analysed again and each change is predicted: in seconds, on any machine, without
running a script. The table compares the predictions of then and now with the same measured values.

These scripts have shown their results: the figures tell what a change of a model does, and score nothing.
"""

from __future__ import annotations

import argparse
import gzip
import math
import statistics
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
from corpus_checkout import NotFetched, checkout
from corpus_script import CorpusScript, read_corpus
from result_file import RESULTS, table
from unseen_whatifs import LIST, TRIED
from whatifs import Row, WhatIfScript, said

import skyline
from skyline.analysis.analyse import analyse
from skyline.errors import SkylineError
from skyline.trace.store import SUFFIX, load, with_relative_paths
from skyline.whatif.question import Choice

KEPT = RESULTS / "kept"
_ROWS = ".rows.json"
_SCRATCH = "/public-repositories"
"""The folder of the repositories in stored profiles."""
_MOVED = 0.005
"""Change of an error that is worth a line."""


@dataclass(frozen=True, slots=True)
class Rescored:
    """A measured change with its prediction of then and the present one; None if it is no longer offered."""

    script: str
    then: Row
    now: Row | None


def store(
    name: str, keep: Path, scripts: Sequence[tuple[CorpusScript, Path]], folders: Mapping[str, Path]
) -> int:
    """Store profiles and rows of the scripts of a run. Returns how many scripts were stored.

    ``folders`` are folders of this machine by the names that the stored profiles have for them.
    """
    target = KEPT / name
    target.mkdir(parents=True, exist_ok=True)
    stored = 0
    for script, path in scripts:
        folder = keep / WhatIfScript(path, (), None).name.replace("/", "-")
        found = sorted(folder.glob(f"*{SUFFIX}"))
        if not found or not (folder / "rows.json").exists():
            print(f"{script.name}: no profile or no rows in {folder}", file=sys.stderr)
            continue
        profile = with_relative_paths(load(found[0]))
        # The sources are other people's, and stay in their repositories.
        sources = tuple(replace(source, text="") for source in profile.sources)
        text = msgspec.json.encode(replace(profile, sources=sources))
        for named, place in folders.items():
            text = text.replace(str(place).encode(), named.encode())
        (target / f"{script.name}{SUFFIX}").write_bytes(gzip.compress(text, mtime=0))
        (target / f"{script.name}{_ROWS}").write_bytes((folder / "rows.json").read_bytes())
        stored += 1
    return stored


def rescored(name: str, script: CorpusScript, path: Path, scratch: Path) -> Iterator[Rescored]:
    """All valid rows of a stored script. ``scratch`` contains the repositories here."""
    stored = gzip.decompress((KEPT / name / f"{script.name}{SUFFIX}").read_bytes())
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder, f"{script.name}{SUFFIX}")
        here.write_bytes(gzip.compress(stored.replace(_SCRATCH.encode(), str(scratch).encode()), 1))
        profile = load(here, path)
    sources = tuple(
        replace(source, text=Path(source.path).read_text(encoding="utf-8")) for source in profile.sources
    )
    analysis = analyse(replace(profile, sources=sources))
    rows = msgspec.json.decode(
        (KEPT / name / f"{script.name}{_ROWS}").read_bytes(), type=dict[str, Row | None]
    )
    for row in rows.values():
        if row is None or not row.valid:
            continue
        choices = tuple(Choice(*one.split("=", 1)) for one in row.said.names)
        try:
            now = replace(row, said=said(analysis, choices))
        except SkylineError as refused:
            print(f"{script.name} {' '.join(row.said.names)}: {refused.message}", file=sys.stderr)
            now = None
        yield Rescored(script.name, row, now)


def page(rows: Sequence[Rescored], *, every: bool) -> str:
    """The rows whose error moved, or all of them, and a line for each kind of claim, then and now."""
    both = [(one.script, one.then, one.now) for one in rows if one.now is not None]
    lines = [
        [
            script,
            " + ".join(then.said.names),
            f"{then.measured.value:.3f}",
            f"{then.error:+.1%}",
            f"{now.error:+.1%}",
            f"{now.said.low:.2f} to {now.said.high:.2f}" + ("" if _inside(now) else " outside"),
            now.said.provenance,
        ]
        for script, then, now in both
        if every or abs(now.error - then.error) > _MOVED
    ]
    parts = [table(["script", "change", "measured", "then", "now", "range now", "provenance"], lines)]
    groups = [
        ("single, tried", [pair for pair in both if len(pair[1].said.names) == 1 and _tried(pair[1])]),
        ("single, modelled", [pair for pair in both if len(pair[1].said.names) == 1 and not _tried(pair[1])]),
        ("three together", [pair for pair in both if len(pair[1].said.names) > 1]),
    ]
    sums = [
        [title, when, *_figures(group)]
        for title, pairs in groups
        for when, group in (("then", [then for _, then, _ in pairs]), ("now", [now for _, _, now in pairs]))
        if group
    ]
    head = ["claim", "code", "changes", "median error", "90th percentile", "within 10 %", "range contains"]
    return "\n\n".join([*parts, table(head, sums)])


def _tried(row: Row) -> bool:
    return row.said.provenance in TRIED


def _inside(row: Row) -> bool:
    return row.said.low <= row.measured.value <= row.said.high


def _figures(rows: Sequence[Row]) -> list[str]:
    errors = sorted(abs(row.error) for row in rows)
    return [
        str(len(rows)),
        f"{statistics.median(errors):.1%}",
        f"{errors[math.ceil(0.9 * len(errors)) - 1]:.1%}",
        f"{sum(error <= 0.1 for error in errors)} of {len(errors)}",
        f"{sum(map(_inside, rows))} of {len(rows)}",
    ]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--store", metavar="NAME", help="store a run of this name, from --keep")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="the folder that the run kept")
    parser.add_argument("--environment", default=sys.prefix, help="folder of the Python that ran the scripts")
    parser.add_argument("--only", nargs="*", default=[], metavar="SCRIPT", help="only these scripts")
    parser.add_argument("--every", action="store_true", help="list all rows, not only those that moved")
    parser.add_argument("--list", type=Path, default=LIST)
    parser.add_argument("--scratch", type=Path, default=Path(tempfile.gettempdir(), "skyline-corpus"))
    parser.add_argument("--mirror", type=Path, help="a folder of bare clones")
    options = parser.parse_args()
    checkouts = options.scratch.resolve() / "checkouts"

    def with_files(scripts: Sequence[CorpusScript]) -> Iterator[tuple[CorpusScript, Path]]:
        for script in scripts:
            try:
                folder = checkout(script.repository, script.commit, checkouts, options.mirror)
            except NotFetched as reason:
                print(f"{script.name}: {reason}", file=sys.stderr)
                continue
            yield script, folder / script.path

    scripts = read_corpus(options.list)
    if options.store:
        own = [script for script in scripts if script.spent in ("", options.store)]
        folders = {
            _SCRATCH: options.scratch.resolve(),
            "/environment": Path(options.environment),
            "/skyline": Path(skyline.__file__).resolve().parent.parent,
        }
        return 0 if store(options.store, options.keep, list(with_files(own)), folders) else 1
    rows: list[Rescored] = []
    for folder in sorted(KEPT.iterdir()):
        own = [
            script
            for script in scripts
            if (folder / f"{script.name}{SUFFIX}").exists()
            and (not options.only or script.name in options.only)
        ]
        rows += [
            row
            for script, path in with_files(own)
            for row in rescored(folder.name, script, path, options.scratch.resolve())
        ]
    print(page(rows, every=options.every))
    return 0


if __name__ == "__main__":
    sys.exit(main())
