from __future__ import annotations

import io
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from skyline.interval import Interval
from skyline.report.diff import diff
from skyline.report.document import Paragraph, Section, apportion, document
from skyline.report.pages.curve import thinned
from skyline.report.pages.diff import diff_page
from skyline.report.pages.profile import SavedPlaces, profile_page
from skyline.report.pages.whatifs import whatifs_page
from skyline.report.schema import KernelReport, KnobReport, ProfileReport, WhatIfReport
from skyline.report.terminal import print_document
from skyline.source.knob import SettingPlace
from skyline.trace.record import PhaseTimes

GOLDEN = Path(__file__).parent / "golden"
SAVED = SavedPlaces(
    Path("/home/ada/nano/.skyline/train-1.profile.json.gz"), Path("/home/ada/nano/.skyline/train-1.html")
)


def test_kernels_stand_under_the_lines_that_launched_them(profile_report: ProfileReport) -> None:
    first, second, *_ = profile_report.lines
    names = ("void at::native::mm_kernel", "softmax_kernel", "add_kernel", "mul_kernel")
    kernels = (
        *(
            KernelReport(first.file, first.line, name, 9.0 / (1 + place), 2.0)
            for place, name in enumerate(names)
        ),
        KernelReport(second.file, second.line, "Memcpy HtoD (Pinned -> Device)", 0.05, 1.0),
    )
    report = replace(profile_report, kernels=kernels, gpu_phases=PhaseTimes(forward=45.6, backward=45.6))
    sheet = console(110)
    print_document(profile_page(report, None), sheet)
    rows = printed(sheet).splitlines()
    at = next(index for index, row in enumerate(rows) if f"model.py:{first.line} " in row)
    assert [row.strip() for row in rows[at + 1 : at + 4]] == [
        "on the GPU: at::native::mm_kernel  9.00 ms, 2 launches",
        "on the GPU: softmax_kernel  4.50 ms, 2 launches",
        "on the GPU: add_kernel  3.00 ms, 2 launches",
    ]
    assert f"model.py:{second.line} " in rows[at + 4]
    assert "Memcpy HtoD (Pinned -> Device)  50.0 µs, 1 launch" in rows[at + 5]
    [bar] = [row for row in rows if row.startswith(" GPU work")]
    assert "91.2 ms  50 %" in bar
    assert bar.count("█") == pytest.approx(bar.count("░"), abs=1)


class Sheet(io.StringIO):
    """A file that says which encoding it is in, as a redirected stdout does."""

    def __init__(self, encoding: str) -> None:
        super().__init__()
        self._encoding = encoding

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._encoding


def console(width: int, encoding: str = "utf-8") -> Console:
    return Console(file=Sheet(encoding), width=width, highlight=False)


def printed(console: Console) -> str:
    assert isinstance(console.file, Sheet)
    return console.file.getvalue()


def check(name: str, found: str) -> None:
    """Compare with the golden file; SKYLINE_UPDATE_GOLDEN=1 writes it again."""
    path = GOLDEN / name
    if os.environ.get("SKYLINE_UPDATE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(found, encoding="utf-8")
    assert found == path.read_text(encoding="utf-8")


@pytest.fixture(autouse=True)
def plain_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("width", [80, 120])
def test_summary(width: int, profile_report: ProfileReport, whatif_report: WhatIfReport) -> None:
    page = console(width)
    print_document(profile_page(profile_report, whatif_report, saved=SAVED), page)
    found = printed(page)
    assert max(len(line) for line in found.splitlines()) <= width
    check(f"summary-{width}.txt", found)


def test_summary_in_plain_characters(profile_report: ProfileReport, whatif_report: WhatIfReport) -> None:
    page = console(80, "ascii")
    print_document(profile_page(profile_report, whatif_report, saved=SAVED), page)
    assert printed(page).isascii()
    check("summary-ascii.txt", printed(page))


def test_a_dumb_terminal_gets_plain_characters(
    profile_report: ProfileReport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "dumb")
    page = console(80)
    print_document(profile_page(profile_report, None), page)
    assert printed(page).isascii()


def test_no_colour_means_no_escape_codes(
    profile_report: ProfileReport, whatif_report: WhatIfReport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    page = Console(file=Sheet("utf-8"), width=100, highlight=False, force_terminal=True)
    print_document(profile_page(profile_report, whatif_report), page)
    # Bold and dim remain; colour does not.
    codes = set(re.findall(r"\x1b\[([0-9;]*)m", printed(page)))
    assert not any(re.search(r"(^|;)(3[0-7]|9[0-7])", code) for code in codes)


def test_numbers_are_never_cut(profile_report: ProfileReport, whatif_report: WhatIfReport) -> None:
    page = console(44)
    print_document(profile_page(profile_report, whatif_report), page)
    found = printed(page)
    for number in ("182.4", "41.0", "26.8", "661.0 ±61.0", "+157.6 ±9.0"):
        assert number in found


def test_source_is_not_read_as_markup(profile_report: ProfileReport) -> None:
    first = replace(profile_report.lines[0], source="x[bold] = y[/red]")
    page = console(120)
    print_document(
        profile_page(replace(profile_report, lines=(first, *profile_report.lines[1:])), None), page
    )
    assert "x[bold] = y[/red]" in printed(page)


def test_wide_characters_keep_the_columns(profile_report: ProfileReport) -> None:
    first = replace(
        profile_report.lines[0], source="损失 = 模型(数据).mean()  # 这一行是中文的注释注释注释注释注释注释"
    )
    page = console(100)
    print_document(
        profile_page(replace(profile_report, lines=(first, *profile_report.lines[1:])), None), page
    )
    from rich.cells import cell_len

    assert max(cell_len(line) for line in printed(page).splitlines()) <= 100


def test_a_report_without_lines_or_curve_says_why(profile_report: ProfileReport) -> None:
    reason = "no DataLoader and no literal batch size was found"
    batch = replace(profile_report.batch_size, value=None, knob=None, reason=reason)
    page = console(100)
    print_document(
        profile_page(replace(profile_report, lines=(), curve=(), batch_size=batch, throughput=None), None),
        page,
    )
    found = " ".join(printed(page).split())
    assert reason in found
    assert "no time could be assigned to a line" in found
    assert "samples/s unknown" in found


def test_a_batch_size_from_a_file_of_settings_says_where_it_lives(profile_report: ProfileReport) -> None:
    place = SettingPlace("/project/config.yaml", 5, "train.batch_size", "16")
    knob = KnobReport(place.file, 5, 14, 16, "16", "setting")
    batch = replace(profile_report.batch_size, knob=knob, reason=None, lives=place)
    page = console(120)
    print_document(profile_page(replace(profile_report, batch_size=batch), None), page)
    lines = printed(page).splitlines()
    said = "The batch size is read from config.yaml, line 5 (`train.batch_size: 16`)."
    assert [line.strip() for line in lines if "config.yaml" in line] == [said]


def test_asked_whatifs(whatif_report: WhatIfReport) -> None:
    page = console(80)
    print_document(whatifs_page(whatif_report, subject=("train.py, measured",), script="train.py"), page)
    check("whatifs-80.txt", printed(page))


def test_comparison(profile_report: ProfileReport, faster_report: ProfileReport) -> None:
    page = console(100)
    print_document(diff_page(diff(profile_report, faster_report)), page)
    check("diff-100.txt", printed(page))


def test_rounded_parts_still_sum() -> None:
    assert sum(apportion([33.333, 33.333, 33.334], 0)) == 100
    assert apportion([0.26, 0.26, 0.48], 1) == [0.3, 0.2, 0.5]


def test_thinning_keeps_what_was_measured(profile_report: ProfileReport) -> None:
    kept = thinned(profile_report.curve, 32, 6)
    assert {8, 16, 32, 48} <= {point.batch_size for point in kept}
    assert len(kept) <= 6


def test_names_of_whatifs_are_whole_where_numbers_are_wide(whatif_report: WhatIfReport) -> None:
    """A name is typed exactly; the last column makes room."""
    wide = tuple(
        replace(item, change_ms=Interval(-153.4, -178.2, 112.3)) if item.name == "amp" else item
        for item in whatif_report.estimates
    )
    page = console(80)
    print_document(whatifs_page(replace(whatif_report, estimates=wide), detail=False), page)
    found = printed(page)
    assert max(len(line) for line in found.splitlines()) <= 80
    for name in ("num_workers=2", "fused_optimizer", "amp=bf16", "batch_size=64"):
        assert f"\n {name} " in found
    assert "from: modelled for num_workers=2" in found
    assert "assumed for amp=bf16" in " ".join(found.split())


def test_bytes_of_rounding_are_no_change_of_memory(whatif_report: WhatIfReport) -> None:
    first = whatif_report.estimates[0]
    peak = Interval.exact(first.peak_bytes.value - 1)
    page = console(100)
    print_document(
        whatifs_page(replace(whatif_report, estimates=(replace(first, peak_bytes=peak),)), detail=False), page
    )
    assert "-1 B" not in printed(page)


def test_a_number_stays_with_its_unit() -> None:
    for width in range(44, 70):
        page = console(width)
        words = "parameters 1.4 MB, gradients 140 MB, optimizer 2.8 kB, spent 9 % in 17.5 ms"
        print_document(document(Section((Paragraph(words),))), page)
        lines = printed(page).strip().splitlines()
        assert not any(line.rstrip()[-1].isdigit() for line in lines)
        assert " ".join(" ".join(lines).split()).endswith("spent 9 % in 17.5 ms")
