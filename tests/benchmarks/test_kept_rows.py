"""A stopped measurement continues, and repeats disturbed rows."""

from __future__ import annotations

from dataclasses import dataclass

from skyline.interval import Interval


def row(name, null):
    from whatifs import Row, Said

    said = Said((name,), 1.1, 1.0, 1.2, 1.3, 1e6, "modelled")
    return Row("a/train.py", said, Interval(1.0, 0.9, 1.1), Interval(null, null, null), 1_000_000)


def test_rows_outlive_the_process_and_those_with_a_null_that_is_off_are_wanted_again(tmp_path):
    from kept_rows import KeptRows
    from whatifs import Row

    kept = KeptRows(tmp_path, "a/train.py", Row)
    kept.put({"amp": row("amp", 1.0), "compile": row("compile", 1.2), "tf32": None})
    again = KeptRows(tmp_path, "a/train.py", Row)
    assert [again.measured(name) for name in ("amp", "compile", "tf32", "sdpa")] == [True, False, True, False]
    assert [one.said.names for one in again.among(["compile", "tf32", "amp"])] == [("compile",), ("amp",)]


def test_without_a_folder_nothing_is_written(tmp_path, monkeypatch):
    from kept_rows import KeptRows
    from whatifs import Row

    monkeypatch.chdir(tmp_path)
    kept = KeptRows(None, "a/train.py", Row)
    kept.put({"amp": row("amp", 1.0)})
    assert kept.measured("amp")
    assert list(tmp_path.iterdir()) == []


def test_batches_are_about_even_and_hold_everything():
    from kept_rows import batches

    assert list(batches(range(10), 4)) == [range(3), range(3, 6), range(6, 10)]
    assert list(batches(range(3), 0)) == [range(3)]
    assert list(batches([], 0)) == []


@dataclass
class _Clock:
    now: float = 0.0

    def monotonic(self):
        return self.now


def test_nothing_is_begun_that_would_not_be_done_in_time(monkeypatch):
    import kept_rows

    clock = _Clock()
    monkeypatch.setattr(kept_rows, "time", clock)
    deadline = kept_rows.Deadline(100.0, clock.monotonic())
    assert not deadline.passed
    deadline.took(60.0)
    clock.now = 30.0
    assert not deadline.passed
    clock.now = 50.0
    assert deadline.passed


def test_agreed_changes_are_known_in_any_order():
    from agreed_triples import AGREED, agreed, key

    for script in AGREED:
        assert len(agreed(script)) >= 4
        for choices in agreed(script):
            assert len(choices) == 3
            assert key(choices) == key(choices[::-1])
    assert agreed("elsewhere/train.py") == []
