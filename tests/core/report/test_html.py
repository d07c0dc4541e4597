from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from skyline.interval import Interval
from skyline.report.document import TextTable, Track
from skyline.report.html import render
from skyline.report.html.chart import charts, nice_ticks, tick_label
from skyline.report.pages.whatifs import whatif_sections
from skyline.report.schema import LineReport, ProfileReport, WhatIfReport
from skyline.trace.profile import SourceFile

VOID = {"meta", "link", "br", "hr", "img", "input", "rect", "line", "path", "circle"}


class Page(HTMLParser):
    """Checks that elements close in order, and collects what the tests ask about."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.tags: list[str] = []
        self.words: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        values = dict(attrs)
        self.ids += [values["id"]] if values.get("id") else []
        self.links += [value for name in ("href", "src") if (value := values.get(name))]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def sources(report: ProfileReport) -> tuple[SourceFile, ...]:
    """Files that hold the billed lines at their numbers, with comments between them."""
    files: dict[str, dict[int, str]] = {}
    for line in report.lines:
        if line.file:
            files.setdefault(line.file, {})[line.line] = line.source
    return tuple(
        SourceFile(path, "", "\n".join(lines.get(n, "# nothing") for n in range(1, max(lines) + 5)))
        for path, lines in files.items()
    )


def embedded(html: str) -> dict[str, dict[str, object]]:
    found = re.search(r'<script type="application/json" id="skyline-data">(.*?)</script>', html, re.DOTALL)
    assert found is not None
    return json.loads(found.group(1))


def test_the_page_is_whole_and_needs_nothing_else(
    profile_report: ProfileReport, whatif_report: WhatIfReport
) -> None:
    html = render(profile_report, whatif_report, sources(profile_report))
    page = Page(html)
    assert page.open == []
    assert len(page.ids) == len(set(page.ids))
    assert all(link.startswith("#") for link in page.links)
    assert {link[1:] for link in page.links} <= set(page.ids)
    assert "http://" not in html
    assert "https://" not in html
    assert html.count("<script") == 1
    for words in (
        "182.4 ms ±2.1",
        "175 samples/s ±2",
        "nano/model.py:88",
        "fused_optimizer",
        "unattributed",
        "train.py:51: Adam updates 148 tensors",
    ):
        assert words in page.text
    assert "no C++ compiler was found" in page.text


def test_many_changes_that_do_not_apply_fold_into_one_line(
    profile_report: ProfileReport, whatif_report: WhatIfReport
) -> None:
    (refused,) = [one for one in whatif_report.estimates if not one.applicable and one.present is None]
    names = tuple(f"change_{number}" for number in range(5))
    others = tuple(one for one in whatif_report.estimates if one is not refused)
    many = replace(whatif_report, estimates=(*others, *(replace(refused, name=name) for name in names)))
    html = render(profile_report, many)
    assert Page(html).open == []
    (folded,) = re.findall(r"<summary>5 changes do not apply here</summary>(.*?)</details>", html, re.DOTALL)
    assert folded.count("<p") == len(names)
    assert "do not apply here" not in render(profile_report, whatif_report)


def test_it_holds_the_data(profile_report: ProfileReport, whatif_report: WhatIfReport) -> None:
    data = embedded(render(profile_report, whatif_report))
    assert data["profile"]["schema"] == "skyline.profile/1"
    assert data["profile"]["iteration_ms"] == {"value": 182.4, "low": 180.3, "high": 184.5}
    assert data["whatif"]["schema"] == "skyline.whatif/2"


def test_nothing_of_the_persons_can_break_out(profile_report: ProfileReport) -> None:
    evil = "</script><script>alert(1)</script><img src=x onerror=alert(1)> & {{ 7 * 7 }} \u2028"
    first = replace(profile_report.lines[0], source=evil, function=evil)
    report = replace(
        profile_report,
        script=f"/home/ada/{evil}.py",
        lines=(first, *profile_report.lines[1:]),
        notes=(evil,),
        arguments=(evil,),
    )
    html = render(report, None, [SourceFile(first.file, "", "\n" * 87 + f"x = '{evil}'\n")])
    page = Page(html)
    assert page.tags.count("script") == 1
    assert "img" not in page.tags
    assert embedded(html)["profile"]["notes"] == [evil]


def test_a_profile_with_little_in_it(profile_report: ProfileReport) -> None:
    batch = replace(profile_report.batch_size, value=None, knob=None, reason="no batch size was found")
    memory = replace(profile_report.memory, capacity_bytes=None)
    report = replace(
        profile_report,
        lines=(),
        curve=(),
        findings=(),
        notes=(),
        throughput=None,
        memory=memory,
        batch_size=batch,
    )
    page = Page(render(report))
    assert "no batch size was found" in page.text
    assert "unknown" in page.text
    assert "no operator was called from your code" in page.text


def test_a_large_profile_stays_below_two_megabytes(profile_report: ProfileReport) -> None:
    def line(file: int, number: int) -> LineReport:
        path = f"/home/ada/nano/part{file}.py"
        return replace(profile_report.lines[0], file=path, line=number, self_ms=0.01)

    lines = tuple(line(file, number) for file in range(20) for number in range(1, 3001, 30))
    files = [
        SourceFile(
            f"/home/ada/nano/part{file}.py", "", "    value = compute(value, 1.0)  # and so on\n" * 3000
        )
        for file in range(20)
    ]
    html = render(replace(profile_report, lines=lines), None, files)
    assert len(html.encode()) < 2_000_000


def test_charts_tell_measured_from_extrapolated(profile_report: ProfileReport) -> None:
    throughput, memory = charts(profile_report)
    assert [dot.basis for dot in throughput.dots].count("measured") == 4
    assert [dot.now for dot in throughput.dots].index(True) == 3
    assert throughput.outside[-1][0] == next(dot.x for dot in throughput.dots if "batch 48" in dot.label)
    assert memory.limit is not None
    assert memory.limit.label == "device memory 24.0 GB"


def test_the_capacity_may_stand_on_a_line_of_its_own(profile_report: ProfileReport) -> None:
    memory = replace(profile_report.memory, capacity_bytes=int(25.3e9))
    html = render(replace(profile_report, memory=memory), None, sources(profile_report))
    assert re.search(r"<span>[\d.]+( <b>GB</b>)?</span> <small>of 25\.3 GB</small>", html)


def test_a_far_capacity_does_not_flatten_the_curve(profile_report: ProfileReport) -> None:
    memory = replace(profile_report.memory, capacity_bytes=int(1e12))
    assert charts(replace(profile_report, memory=memory))[1].limit is None


def test_one_point_is_no_curve(profile_report: ProfileReport) -> None:
    assert charts(replace(profile_report, curve=profile_report.curve[:1])) == ()


@pytest.mark.parametrize("top", [0.0, 0.013, 1.0, 9.7, 194.0, 25.1, 12_345.0])
def test_ticks_reach_the_top_in_round_steps(top: float) -> None:
    ticks = nice_ticks(top)
    assert ticks[0] == 0
    assert ticks[-1] >= top
    assert 2 <= len(ticks) <= 8


def test_an_exact_interval_has_no_band(profile_report: ProfileReport) -> None:
    flat = tuple(replace(p, peak_bytes=Interval.exact(p.peak_bytes.value)) for p in profile_report.curve)
    band = charts(replace(profile_report, curve=flat))[1].band
    upper, lower = band[1:-2].split(" L")[:8], band[1:-2].split(" L")[8:]
    assert upper == list(reversed(lower))


def test_small_sizes_do_not_round_to_nothing(profile_report: ProfileReport) -> None:
    """12.5 MB and 19.5 MB next to 1.9 GB: an axis in GB would call both nothing."""
    sizes = (12.5e6, 19.5e6, 1.9e9)
    points = tuple(
        replace(point, peak_bytes=Interval.exact(size))
        for point, size in zip(profile_report.curve, sizes, strict=False)
    )
    unbounded = replace(profile_report.memory, capacity_bytes=None)
    memory = charts(replace(profile_report, curve=points, memory=unbounded))[1]
    assert memory.unit == "MB"
    assert [dot.label.split(", ")[0] for dot in memory.dots] == [
        "batch 8: 12.5 MB",
        "batch 16: 19.5 MB",
        "batch 24: 1.9 GB",
    ]
    assert [tick.label for tick in memory.y_ticks] == ["0", "500", "1000", "1500", "2000"]


def test_an_axis_has_room_for_its_numbers() -> None:
    assert tick_label(50_000, 80_000) == "50000"
    assert tick_label(1_500_000, 2_000_000) == "1500k"
    assert tick_label(0, 2_000_000) == "0"


def test_a_figure_may_fold_before_its_spread_but_not_within(profile_report: ProfileReport) -> None:
    """Cards are narrow: what is in one unbroken span must stay short, whatever the range."""
    throughput = Interval(12_345.0, 4_354.0, 117_265.0)
    page = render(replace(profile_report, throughput=throughput))
    assert "<span>12345 <b>samples/s</b></span> <small>(4354–117265)</small>" in page


@pytest.mark.parametrize(("low", "high", "verdict"), [(1.1, 1.5, "good"), (0.9, 1.7, ""), (0.5, 0.9, "bad")])
def test_a_what_if_is_coloured_where_its_range_excludes_no_change(
    whatif_report: WhatIfReport, low: float, high: float, verdict: str
) -> None:
    value = (low + high) / 2
    estimate = replace(
        next(one for one in whatif_report.estimates if one.applicable),
        speedup=value,
        speedup_range=Interval(value, low, high),
    )
    report = replace(whatif_report, estimates=(estimate,), combined=None)
    tables = [
        block
        for section in whatif_sections(report)
        for block in section.blocks
        if isinstance(block, TextTable)
    ]
    (track,) = [cell.graphic for cell in tables[0].rows[0].cells if isinstance(cell.graphic, Track)]
    assert track.verdict == verdict
