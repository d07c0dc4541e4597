"""The report of a saved profile and the answers about it, from the cache or computed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from skyline.cli.subject import changed_sources, saved_profile
from skyline.ledger.ledger import ledger_path
from skyline.predict.own_table import own_table_path
from skyline.report.report_cache import CachedReport, ReportCache
from skyline.trace.store import FOLDER
from skyline.uncollected import uncollected

if TYPE_CHECKING:
    from skyline.trace.profile import Profile
    from skyline.whatif.question import Question


@uncollected(last=True)
def reported(source: str | None, path: Path) -> CachedReport:
    """The report of the profile in a file, which ``source`` names, and the answers to all what-ifs."""
    cache = _cache(path, None if source is None or path == Path(source) else Path(source))
    known = cache.load()
    if known is not None:
        return known
    from skyline.analysis.analyse import analyse
    from skyline.report.build import profile_report, whatif_report

    profile = saved_profile(source).profile
    analysis = analyse(profile)
    made = CachedReport(profile_report(analysis), whatif_report(analysis), changed_sources(profile))
    cache.keep(made, files_of(profile))
    return made


def answers_cache(path: Path, script: Path | None, question: Question | None) -> ReportCache:
    """The cache of the answers to a question about the profile in a file; without a question, to all what-ifs."""
    asked = () if question is None else tuple(map(str, question.all_choices))
    return _cache(path, script, ("answers", *asked), [ledger_path()])


def keep(path: Path, profile: Profile, found: CachedReport) -> None:
    """Cache the report of a profile that was just saved in a file, for ``show`` and ``whatif``."""
    script = Path(profile.script)
    _cache(path, script).keep(found, files_of(profile))
    if not ledger_path().exists() and not runs_of(script):
        answers_cache(path, script, None).keep(found, files_of_answers(profile))


def files_of(profile: Profile) -> Iterator[Path]:
    """The files that a profile was made from: the report tells which of them changed."""
    from skyline.trace.profile import settings_files

    yield from (Path(source.path) for source in profile.sources)
    yield from map(Path, settings_files(profile))


def files_of_answers(profile: Profile) -> Iterator[Path]:
    """The files that answers depend on, which include those of watched runs."""
    script = Path(profile.script)
    yield from files_of(profile)
    yield script.parent / FOLDER
    yield from runs_of(script)


def runs_of(script: Path) -> list[Path]:
    """The files of watched runs of a script."""
    from skyline.watch.diary import histories

    return histories(script.absolute())


def _cache(
    path: Path, script: Path | None, question: Sequence[str] = (), depends_on: Sequence[Path] = ()
) -> ReportCache:
    folder = (path if script is None else script).absolute().parent
    # Without its name, the script is in the folder above that of its profiles.
    at_script = folder.parent if script is None and folder.name == FOLDER else folder
    return ReportCache(path, at_script, question, [own_table_path(), *depends_on])
