"""History: the saved profiles of a script, its states over the commits, and the comparison of two profiles."""

from __future__ import annotations

import asyncio
from pathlib import Path

from skyline.errors import SkylineError, UsageError
from skyline.report import protocol
from skyline.report.commit_history import HistoryReport, history_report
from skyline.report.history import ComparisonReport, SavedProfile, compared, saved_profile
from skyline.report.protocol import CompareParams, UriParams
from skyline.trace import store
from skyline.verification.commits import commits_of
from skyline_lsp import convert, wire
from skyline_lsp.server import SkylineServer
from skyline_lsp.state import Prepared, no_profile, prepare


def register(server: SkylineServer) -> None:
    """Answer ``skyline/history``, ``skyline/commits`` and ``skyline/compare``."""

    @server.feature(protocol.HISTORY)
    @wire.answers(UriParams)
    async def history(asked: UriParams) -> tuple[SavedProfile, ...]:
        script = script_of(server, asked.uri)
        return await asyncio.to_thread(_saved, script)

    @server.feature(protocol.COMMITS)
    @wire.answers(UriParams)
    async def commits(asked: UriParams) -> HistoryReport | None:
        script = script_of(server, asked.uri)
        return await asyncio.to_thread(_over_commits, script)

    @server.feature(protocol.COMPARE)
    @wire.answers(CompareParams)
    async def compare(asked: CompareParams) -> ComparisonReport:
        state = server.state_of(asked.uri)
        now = state.prepared if state is not None else None
        script = script_of(server, asked.uri)
        return await asyncio.to_thread(_compared, script, asked, now)


def script_of(server: SkylineServer, uri: str) -> Path:
    """The script of a URI. For an opened profile, the script that was profiled."""
    path = Path(convert.path_of(uri) or "")
    state = server.state_of(uri)
    if path.suffix not in {".py", ".pyw"} and state is not None and state.prepared is not None:
        return Path(state.prepared.profile.script)
    return path


def _saved(script: Path) -> tuple[SavedProfile, ...]:
    """The saved profiles of a script, newest first. Unreadable ones are left out."""
    found: list[SavedProfile] = []
    for path in store.saved(script):
        try:
            profile = store.load(path, script)
        except SkylineError:
            continue
        if Path(profile.script) == script:
            found.append(saved_profile(profile, str(path)))
    return tuple(sorted(found, key=lambda one: one.created, reverse=True))


def _over_commits(script: Path) -> HistoryReport | None:
    """The states of a script over its commits; None without a profile."""
    rows = store.history(script)
    return history_report(script.name, rows, commits_of(script, rows)) if rows else None


def _compared(script: Path, asked: CompareParams, now: Prepared | None) -> ComparisonReport:
    before = _prepared(script, asked.before, now)
    after = now if asked.after is None else _prepared(script, asked.after, now)
    if after is None:
        raise no_profile()
    return compared(before.report, after.report, before.profile, after.profile)


def _prepared(script: Path, wanted: str, now: Prepared | None) -> Prepared:
    if now is not None and now.profile.id == wanted:
        return now
    path = store.saved_as(script, wanted)
    if path is None:
        raise UsageError(f"There is no saved profile {wanted} of {script.name}")
    return prepare(store.load(path, script))
