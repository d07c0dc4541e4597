from __future__ import annotations

import asyncio
import sys

import pytest

QUICK = [
    "a syntax error",
    "crashes in native code",
    "the file is gone",
    "closes its outputs",
    "detaches a fork of itself",
]


def test_what_is_left_over_is_named() -> None:
    from many_saves import Holdings

    before = Holdings(processes=2, threads=8, files=12, temporary=2, resident_bytes=60_000_000)
    assert before.left_over(before) == []
    after = Holdings(processes=3, threads=8, files=14, temporary=1, resident_bytes=90_000_000)
    assert after.left_over(before) == ["1 more processes", "2 more open files", "30.0 MB more memory"]


@pytest.mark.capture
@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="the broken scripts use signals and forks")
def test_a_server_lets_go_of_every_run() -> None:
    from broken_scripts import BROKEN
    from many_saves import measure

    before, after, answers, _ = asyncio.run(measure(len(QUICK), 1, {name: BROKEN[name] for name in QUICK}))
    assert list(answers) == QUICK
    assert after.left_over(before) == []
    assert "SIGSEGV" in answers["crashes in native code"]
    assert "per iteration" in answers["closes its outputs"]
