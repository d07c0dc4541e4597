"""Large blocks that the C library returns to the system: their cost goes from the operators that take them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from skyline.analysis.estimate import answer
from skyline.errors import RewriteRefused
from skyline.findings.returned_blocks import RULE
from skyline.graph.selection import select
from skyline.rewrite.catalogue.keep_memory import rewrite, snippet
from skyline.rewrite.context import RewriteContext
from skyline.trace.record import Allocation, Phase
from skyline.whatif.baseline import baseline
from skyline.whatif.composition import compose, detected_in
from skyline.whatif.question import Choice
from skyline.whatif.registry import whatifs

MB = 1_000_000
US_PER_MB = 10.0


def taking(profile, size_bytes, us_per_mb=US_PER_MB):
    """The linear layer of the last iteration takes a block."""
    begin = profile.trace.iterations[-1].start_us
    line = profile.trace.records[1].line
    blocks = (
        Allocation(begin + 2100, size_bytes, 7, Phase.FORWARD, line),
        Allocation(begin + 9000, -size_bytes, 7, Phase.BACKWARD, line),
    )
    environment = replace(profile.environment, platform="linux")
    trace = replace(profile.trace, allocations=blocks)
    return replace(profile, trace=trace, environment=environment, large_block_us_per_mb=us_per_mb)


def test_half_of_the_cost_goes_from_the_operator(profile, monkeypatch):
    """100 MB at 10 µs each are 1 ms; half of it is likely to go, from nothing to all."""
    monkeypatch.setattr("skyline.analysis.estimate.beyond_model", lambda *_: 0.0)
    subject = baseline(taking(profile, 100 * MB))
    found = answer(subject, [Choice("keep_memory")])
    assert found.reason is None
    assert found.change_ms.value == pytest.approx(-0.5, rel=0.02)
    assert found.change_ms.low == pytest.approx(-1.0, abs=0.15)
    assert found.change_ms.high == pytest.approx(0.0, abs=0.15)
    before, after = subject.operators, compose(subject, [Choice("keep_memory")]).scenario.graph
    changed = {before.tasks[int(one)].name for one in (before.durations != after.durations).nonzero()[0]}
    assert changed == {"aten::linear"}
    linear = select(before, name="aten::linear")
    assert len(linear) == 3
    assert (after.durations[linear] < before.durations[linear]).all()


def test_a_block_never_takes_all_of_an_operator(profile):
    subject = baseline(taking(profile, 10_000 * MB))
    linear = select(subject.operators, name="aten::linear")
    after = compose(subject, [Choice("keep_memory")]).scenario.graph
    assert after.durations[linear] == pytest.approx(0.1 * subject.operators.durations[linear])


@pytest.mark.parametrize(
    ("size_bytes", "us_per_mb", "reason"),
    [
        (30 * MB, US_PER_MB, "no block above 32 MiB"),
        (100 * MB, 0.0, "no longer than a used one"),
        (40 * MB, 0.01, "less than 1 %"),
    ],
)
def test_where_nothing_is_gained(profile, size_bytes, us_per_mb, reason):
    subject = baseline(taking(profile, size_bytes, us_per_mb))
    assert reason in detected_in(subject, whatifs()["keep_memory"]).reason


def test_only_glibc_on_a_cpu(profile, gpu_profile):
    made = taking(profile, 100 * MB)
    mac = replace(made, environment=replace(made.environment, platform="macOS-14"))
    assert "Linux" in detected_in(baseline(mac), whatifs()["keep_memory"]).reason
    assert "CPU" in detected_in(baseline(gpu_profile), whatifs()["keep_memory"]).reason


def test_the_finding_stands_at_the_line_that_takes_the_blocks(profile):
    found = RULE.check(baseline(taking(profile, 400 * MB)))
    assert found.code == "SKY404"
    assert "400 MB in 1 blocks" in found.title
    assert found.whatif == "keep_memory"
    assert found.cost_ms > 0.5
    assert found.line == profile.trace.lines[profile.trace.records[1].line].line
    assert "MALLOC_MMAP_MAX_=0" in found.evidence[1].text
    assert RULE.check(baseline(taking(profile, 40 * MB, 1.0))) is None


def test_the_rewrite_names_the_environment_of_the_launch(profile):
    assert '"MALLOC_MMAP_MAX_": "0"' in snippet("")
    with pytest.raises(RewriteRefused, match="launch configuration"):
        rewrite(RewriteContext(profile, lambda path: None), "")
