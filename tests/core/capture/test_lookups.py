"""Rows that a script looks up: their shares on lookups worked out by hand, and in runs that are not changed by it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional

from skyline.capture import bare
from skyline.capture.child.values.access_shares import Accesses, access_shares, hot_rows
from skyline.capture.child.values.lookups import Lookups
from skyline.capture.child.values.values_pass import Table, large_tables, trained_modules
from skyline.capture.process import Starter
from skyline.capture.request import CaptureRequest
from skyline.predict.gpu_profile import gpu_profile
from skyline.trace import store
from skyline.trace.profile import Profile
from skyline.whatif.baseline import baseline
from skyline.whatif.catalogue.memory.hot_embeddings import WHATIF
from skyline.whatif.composition import detected_in

ZIPF = """
import torch
from torch import nn

torch.manual_seed(1)
ROWS = 20_000
chance = 1 / torch.arange(1, ROWS + 1, dtype=torch.double)
model = nn.Sequential(nn.Embedding(ROWS, 16), nn.Dropout(0.1), nn.Flatten(), nn.Linear(64, 1))
optimizer = torch.optim.Adagrad(model.parameters(), lr=0.01)
for step in range({steps}):
    words = torch.multinomial(chance, 64 * 4, replacement=True).view(64, 4)
    optimizer.zero_grad()
    loss = model(words).square().mean()
    loss.backward()
    optimizer.step()
    print("row", loss.item(), float(model[0].weight.double().sum()), flush=True)
"""


def table(first: int, rows: int, width: int) -> Table:
    return Table(f"net.{first}", nn.Embedding(rows, width), first)


def accesses(*iterations: list[int], samples: list[list[int]] | None = None) -> Accesses:
    keys = [key for rows in iterations for key in rows]
    numbers = [number for number, rows in enumerate(iterations) for _ in rows]
    known = [one for rows in samples for one in rows] if samples else [-1] * len(keys)
    return Accesses(torch.tensor(keys), torch.tensor(known), torch.tensor(numbers))


def at(points: list[dict[str, float]], size_bytes: int) -> dict[str, float]:
    return next(one for one in points if one["size_bytes"] == size_bytes)


def test_rows_chosen_in_one_iteration_are_counted_in_the_other() -> None:
    """Of 8 rows of 4 bytes row 0 is hot in both iterations; row 1 in the first only, row 2 in the second only."""
    points = hot_rows([table(0, 8, 1)], accesses([0, 0, 0, 1, 1], [0, 0, 0, 2]))
    # Row 0 takes 3 of 4 lookups of the second iteration, and 3 of 5 of the first.
    one_row = at(points, 4)
    assert one_row["hit_share"] == pytest.approx((3 / 4 + 3 / 5) / 2)
    assert one_row["cold_bytes"] == pytest.approx(4)
    # The second row that fits was seen in the choice alone.
    assert at(points, 8)["hit_share"] == pytest.approx((3 / 4 + 3 / 5) / 2)
    # Of 16 bytes 8 are left for 2 of the 6 rows that were not seen, which are as many of the misses.
    assert at(points, 16)["hit_share"] == pytest.approx((3 / 4 + 1 / 4 / 3 + 3 / 5 + 2 / 5 / 3) / 2)
    assert at(points, 16)["table_bytes"] == pytest.approx([16])
    assert at(points, 32)["hit_share"] == 1
    assert at(points, 32)["cold_bytes"] == 0


def test_narrow_rows_come_before_wide_ones_with_as_many_lookups() -> None:
    """Of two tables with a row each, that of 4 bytes is kept before that of 12."""
    tables = [table(0, 1, 3), table(1, 1, 1)]
    points = hot_rows(tables, accesses([0, 1], [0, 1]))
    assert at(points, 4)["hit_share"] == pytest.approx(0.5)
    assert at(points, 4)["cold_bytes"] == pytest.approx(12)
    assert at(points, 4)["table_bytes"] == [0, 4]
    assert at(points, 16)["table_bytes"] == [12, 4]
    assert at(points, 16)["hit_share"] == 1


def test_a_sample_is_whole_if_all_of_its_rows_are_kept() -> None:
    """Row 0 is the hottest; in each iteration one of two samples needs row 1 as well."""
    found = accesses([0, 0, 0, 1], [0, 0, 0, 1], samples=[[0, 0, 1, 1], [0, 0, 1, 1]])
    points = hot_rows([table(0, 2, 1)], found)
    assert at(points, 4)["whole_samples"] == pytest.approx(0.5)
    assert at(points, 8)["whole_samples"] == 1


def test_the_share_of_the_best_rows_lies_within_the_range() -> None:
    """Rows drawn by Zipf's law, and evenly: few iterations choose too few rows, and the range extends to the truth."""
    torch.manual_seed(0)
    rows, many = 5000, 256
    for exponent in (0.0, 0.8, 1.2):
        chance = torch.arange(1, rows + 1, dtype=torch.double) ** -exponent
        true = float(chance[: rows // 4].sum() / chance.sum())
        for count in (2, 16, 48):
            drawn = torch.multinomial(chance, count * many, replacement=True).view(count, many)
            point = at(hot_rows([table(0, rows, 1)], accesses(*drawn.tolist())), rows)
            assert point["least_share"] <= true <= point["most_share"], (exponent, count)
            assert point["least_share"] <= point["hit_share"] <= point["most_share"]


def test_rows_are_chosen_by_three_of_four_iterations() -> None:
    """Row 0 is looked up in three of four iterations: the choice without any of them still sees it."""
    points = hot_rows([table(0, 8, 1)], accesses([0, 1], [0, 2], [0, 3], [0, 4]))
    assert at(points, 4)["hit_share"] == pytest.approx(0.5)
    # In the iterations that chose, row 0 and one of the four others.
    assert at(points, 8)["most_share"] > 5 / 8


def test_without_lookups_in_two_iterations_nothing_is_known() -> None:
    assert hot_rows([table(0, 2, 1)], accesses([0, 1])) == []


def _trained(*modules: nn.Module) -> list[Table]:
    model = nn.ModuleList(modules)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    tables = large_tables(trained_modules([(None, optimizer)]))
    wanted = {id(one.weight) for one in modules}
    assert {id(one.weight) for one in tables} <= wanted, (
        "tables of other tests are not trained by this optimizer"
    )
    return tables


def test_small_tables_are_left_out_and_shared_weights_count_once() -> None:
    large, small, shared = nn.Embedding(5000, 64), nn.Embedding(100, 64), nn.Embedding(5000, 64)
    shared.weight = large.weight
    assert [one.rows for one in _trained(large, small, shared)] == [5000]


def test_bags_and_sequences_of_one_batch_are_samples_of_their_own() -> None:
    bag, words = nn.EmbeddingBag(5000, 64, include_last_offset=True), nn.Embedding(5000, 64, padding_idx=0)
    tables = _trained(bag, words)
    first = {id(one.weight): one.first for one in tables}
    original = functional.embedding
    seen = Lookups(tables)
    for _ in range(2):
        bag(torch.tensor([7, 8, 9]), torch.tensor([0, 1, 3]))
        words(torch.tensor([[1, 2, 0], [3, 0, 0]]))
        seen.after_backward()
        seen.end_iteration()
    found = seen.end()
    told = access_shares(tables, found, 2)
    assert functional.embedding is original
    half = len(found.keys) // 2
    keys = [first[id(bag.weight)] + row for row in (7, 8, 9)] + [
        first[id(words.weight)] + row for row in (1, 2, 3)
    ]
    assert found.keys[:half].tolist() == keys
    assert found.samples[:half].tolist() == [0, 1, 1, 0, 0, 1]
    assert found.samples[half:].tolist() == [2, 3, 3, 2, 2, 3]
    rows = {row["path"]: row for row in told["tables"]}
    assert sorted(row["lookups"] for row in rows.values()) == [3, 3]


def test_indices_that_cannot_be_read_end_the_watching_and_not_the_script() -> None:
    words = nn.Embedding(5000, 64)
    seen = Lookups(_trained(words))
    with torch._subclasses.FakeTensorMode(allow_non_fake_inputs=True):
        words(torch.ones(4, dtype=torch.int64))
    assert seen.problem
    seen.end()


@pytest.mark.capture
def test_the_training_goes_on_as_if_nothing_had_been_seen(
    script: Callable[..., Path], run: Callable[..., Profile]
) -> None:
    path = script(ZIPF.format(steps=100_000))
    heard: list[str] = []
    profile = run(path, output=heard)
    rows = [line for line in "".join(heard).splitlines() if line.startswith("row")]
    values = profile.values
    assert values is not None
    assert values.iterations >= 2
    [found] = values.tables
    assert (found.rows, found.row_bytes, found.lookups) == (20_000, 64, 256.0)
    # By Zipf's law the first 1 % of 20,000 rows take 56 % of all lookups; a few iterations find most of them.
    share = next(one.hit_share for one in found.hot if one.size_bytes >= found.size_bytes // 100)
    assert 0.2 < share < 0.65
    assert [one.hit_share for one in values.hot] == sorted(one.hit_share for one in values.hot)
    plain = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.argv = [{str(path)!r}]\n{ZIPF.format(steps=len(rows))}"],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        check=True,
    ).stdout.splitlines()
    assert len(rows) > 20
    assert values.after is not None
    # The run ends at the last optimizer step, perhaps before the script prints that iteration's row.
    assert 0 < values.after <= len(rows) + 1 - values.iterations
    assert rows == plain[: len(rows)]


ENDING = """
with torch.no_grad():
    model(torch.arange(4000).view(1000, 4))
"""
"""Lookups behind the last iteration."""


@pytest.mark.capture
@pytest.mark.parametrize(("steps", "meanwhile"), [(50, True), (110, False)])
def test_a_script_that_ends_early_keeps_what_was_seen(
    script: Callable[..., Path],
    run: Callable[..., Profile],
    monkeypatch: pytest.MonkeyPatch,
    steps: int,
    *,
    meanwhile: bool,
) -> None:
    """The script ends in the pass, which would take 64 iterations, or in the timing behind it."""
    monkeypatch.setattr(bare, "_SMALL_SPREAD", 0.0)
    path = script(ZIPF.format(steps=steps) + ENDING)
    profile = run(path, settle_s=60.0, warmup=2, steps=4)
    values = profile.values
    assert values is not None
    assert 2 <= values.iterations < (steps if meanwhile else 65)
    [found] = values.tables
    assert found.lookups == 256.0
    assert found.distinct_rows <= 256
    assert found.hot
    # Four before the recording, three behind it, and those until the end.
    assert meanwhile or len(profile.times.steps_ms) > 12
    noted = [note for note in profile.notes if "ended while Skyline read the values of its tensors" in note]
    assert bool(noted) == meanwhile
    if meanwhile:
        assert noted[0].endswith(f"they come from {values.iterations} iterations.")


@pytest.mark.capture
def test_a_prediction_takes_the_lookups_of_a_run(
    script: Callable[..., Path], run: Callable[..., Profile], starter: Starter
) -> None:
    source = ZIPF.format(steps=100_000)
    source = source.replace("model = ", 'device = "cuda" if torch.cuda.is_available() else "cpu"\nmodel = ')
    source = source.replace("nn.Linear(64, 1))", "nn.Linear(64, 1)).to(device)").replace(
        "model(words)", "model(words.to(device))"
    )
    path = script(source)
    measured = run(path)
    store.save(measured)
    asked = CaptureRequest(
        path, working_directory=path.parent, gpu="A100-80GB", batch_points=0, timeout_s=60.0
    )
    predicted = gpu_profile(asked, progress=lambda _: None, starter=starter)
    assert predicted.values is not None
    assert predicted.values.tables == measured.values.tables
    assert predicted.values.seen_on == measured.environment.device.name
    found = detected_in(baseline(predicted), WHATIF)
    assert found.applicable, found.reason


@pytest.mark.capture
def test_a_script_without_large_tables_has_one_further_iteration(
    script: Callable[..., Path], run: Callable[..., Profile]
) -> None:
    values = run(script(), settle_s=0.0).values
    assert values is not None
    assert (values.iterations, values.tables, values.hot) == (1, (), ())
