"""Output of the commands for a profile on a GPU, and a change that is verified there."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from skyline.analysis.analyse import analyse
from skyline.capture.warm_pool import WarmPool
from skyline.cli.main import main
from skyline.ledger.ledger import Ledger
from skyline.trace import store
from skyline.trace.profile import Profile
from skyline.verification.measure import Effort
from skyline.verification.verify import verify
from skyline.whatif.question import Choice, Question

pytestmark = [pytest.mark.capture, pytest.mark.xdist_group("gpu")]


KERNEL_MS = 1.5
"""Long enough that a host which gets a fraction of the processor stays ahead."""


@pytest.fixture(scope="module")
def made() -> list[Profile]:
    """The profile of all tests here, once it is made."""
    return []


@pytest.fixture
def profile(
    request: pytest.FixtureRequest, scripts: Path, profiled: Callable[..., Profile], made: list[Profile]
) -> Profile:
    # A test that is repeated looks at another recording.
    if not made or getattr(request.node, "execution_count", 1) > 1:
        made[:] = [profiled(scripts / "bound.py", "device", kernel_us=1e3 * KERNEL_MS)]
    return made[0]


def test_kernels_under_lines_the_bar_of_phases_and_what_bounds_the_step(
    profile: Profile, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "110")
    path = str(store.save(profile, tmp_path))
    assert main(["show", path]) == 0
    text = capsys.readouterr().out
    # The rows under the slowest line, until the next line of the script's.
    [under] = re.findall(r"^ \S*bound\.py:31 .*\n((?:   on the GPU: .*\n)+)", text, re.MULTILINE)
    rows = re.findall(r"on the GPU: (\S+)  ([\d.]+) ms, (\d+) launches", under)
    assert {"at::native::mm_kernel", "at::native::addmm_kernel"} <= {name for name, _, _ in rows}
    assert all(float(ms) == pytest.approx(KERNEL_MS * int(count), rel=0.2) for _, ms, count in rows)
    [(ms, share)] = re.findall(r"^ GPU work +([\d.]+) ms +(\d+) % +█+", text, re.MULTILINE)
    assert re.search(r"all streams added up: [^%]*backward\s+[\d.]+ ms", text)
    assert int(share) > 90
    assert float(ms) >= sum(float(one) for _, one, _ in rows) > 0
    assert re.search(r"^ Bound by.*\n GPU, computing +(9\d|100) %", text, re.MULTILINE)
    report = _json(capsys, "show", "--json", "-", path)
    lines = {Path(line["file"]).name + f":{line['line']}": line for line in report["lines"] if line["file"]}
    # The forward operators' line has the time of their kernels, and so has what comes back through them.
    forward = next(line for name, line in lines.items() if name == "bound.py:31")
    assert forward["forward_ms"] + forward["backward_ms"] > 0.5 * report["iteration_ms"]["value"]
    assert report["phases"]["backward"] > report["phases"]["forward"] > report["phases"]["data"]
    assert report["critical_path"]["gpu_compute"] > 0.9
    assert sum(report["phases"].values()) == pytest.approx(report["iteration_ms"]["value"], rel=0.01)


def test_what_ifs_are_answered_and_amp_is_worth_most_where_the_gpu_holds_the_step(
    profile: Profile, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(store.save(profile, tmp_path))
    report = _json(capsys, "whatif", "--json", "-", path)
    speedup = {
        estimate["name"]: estimate["speedup"] for estimate in report["estimates"] if estimate["applicable"]
    }
    assert speedup["amp"] > 1.05
    # Where the GPU holds the step, saved launches may be too few to be an answer at all.
    assert speedup["amp"] > speedup.get("cuda_graphs", 1.0)


def test_a_change_is_verified_against_the_script_as_it_stands(
    profile: Profile, tmp_path: Path, starters: WarmPool
) -> None:
    found = verify(
        analyse(profile),
        Question(choices=(Choice("tf32"),)),
        effort=Effort(rounds=6, minutes=2, turn_s=0.1),
        ledger=Ledger(tmp_path / "ledger.sqlite3"),
        progress=lambda _: None,
        starter=starters.start,
    )
    measured = found.entry.measurement
    assert measured is not None
    # This GPU has no tensor cores: its kernels take as long, and it is the GPU that holds the step.
    assert measured.ratio == pytest.approx(1, abs=0.4)  # a busy machine scatters short rounds


def _json(capsys: pytest.CaptureFixture[str], *words: str) -> dict:
    capsys.readouterr()
    assert main(list(words)) == 0
    return json.loads(capsys.readouterr().out)
