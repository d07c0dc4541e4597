"""Errors beyond modelled ranges: spent lists give the product's constant, and score it with each list left out."""

from __future__ import annotations

import math

import pytest

from skyline.analysis.estimate import BEYOND_MODEL
from skyline.interval import Interval
from skyline.whatif.subject import BETWEEN_PROCESSES

NOW = BETWEEN_PROCESSES.value
pytest.importorskip("tomllib", reason="the lists of scripts are read by Python 3.11 and later")


def test_the_constant_is_that_of_the_pages() -> None:
    from beyond_models import PAGES, kept, scored, set_by
    from range_rows import changes
    from result_file import RESULTS

    rows = kept(changes(RESULTS, PAGES))
    assert round(set_by(rows), 3) == BEYOND_MODEL.value
    parts, found = scored(rows)
    assert BEYOND_MODEL.low <= min(parts) <= max(parts) <= BEYOND_MODEL.high
    assert 0.85 <= sum(inside for _, inside, _ in found) / len(found) <= 0.95


def test_a_list_that_is_not_spent_sets_nothing() -> None:
    from beyond_models import PAGES
    from corpus_script import read_corpus
    from unseen_whatifs import LIST

    assert set(PAGES) <= {script.spent for script in read_corpus(LIST)}


def test_an_error_counts_beyond_the_modelled_half_and_for_each_change() -> None:
    from beyond_models import holds, lacking
    from range_rows import Change

    def row(measured: float, *names: str) -> Change:
        said = Interval(0.5, 0.5 * math.exp(-0.03), 0.5 * math.exp(0.4))
        return Change("page", "a.py", names, said, measured, NOW)

    assert lacking(row(0.5 * math.exp(0.3), "amp")) == 0.0
    one = row(0.5 * math.exp(-0.05), "amp")
    assert lacking(one) == pytest.approx(0.04)
    assert [holds(one, whole)[0] for whole in (0.039, 0.041)] == [False, True]
    together = row(one.measured, "amp", "compile", "cpu_threads=1", "fused_optimizer")
    assert lacking(together) == pytest.approx(0.02)


def test_rows_of_an_earlier_model_are_left_out() -> None:
    from beyond_models import kept
    from range_rows import Change

    said = Interval.exact(0.9)
    earlier = Change("unseen_whatifs_6", "a.py", ("amp=bf16", "compile=default"), said, 1.5, NOW)
    later = Change("unseen_whatifs_9", "a.py", ("amp=bf16",), said, 1.0, NOW)
    assert kept([earlier, later]) == [later]


def test_single_changes_are_counted_by_their_basis() -> None:
    from beyond_models import by_basis
    from range_rows import Change

    said = Interval(0.5, 0.4, 0.6)

    def rows(basis: str, count: int, measured: float, *names: str) -> list[Change]:
        return [Change("page", "a.py", names or ("amp",), said, measured, NOW, basis)] * count

    together = rows("tried", 5, 0.9, "amp", "compile")
    few, tried, modelled = by_basis(
        [*rows("measured", 3, 0.5), *rows("tried", 17, 0.55), *rows("tried", 3, 0.65), *together], 0.2
    )
    assert few[1:] == ["3", "3 (100%)", "3 (100%)", "too few"]
    assert tried[1:4] == ["20", "17 (85%)", "20 (100%)"]
    assert tried[4] == f"{math.sqrt(math.log(1.3) ** 2 - math.log(1.2) ** 2):.1%}"
    assert modelled[1:] == ["0", "0 (0%)", "0 (0%)", "too few"]
