"""Errors beyond modelled ranges: spent lists give the product's constant, and score it with each list left out."""

from __future__ import annotations

import math

import pytest

from skyline.interval import Interval
from skyline.whatif.beyond_model import BEYOND_MODEL

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
        return Change("page", "a.py", names, said, measured, True)

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
    earlier = Change("unseen_whatifs_6", "a.py", ("amp=bf16", "compile=default"), said, 1.5, True)
    later = Change("unseen_whatifs_7", "a.py", ("compile=default",), said, 1.0, True)
    assert kept([earlier, later]) == [later]
