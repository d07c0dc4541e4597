"""Zeros and changes of rows: shares worked out by hand."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from skyline.capture.child.values.lookups import Lookups
from skyline.capture.child.values.values_pass import RowChanges, ValuesPass, large_tables, trained_modules
from skyline.capture.child.values.zeros import Zeros, widths


def trains(model: nn.Module) -> list[tuple[None, torch.optim.Optimizer]]:
    return [(None, torch.optim.SGD(model.parameters(), lr=1.0))]


def test_rows_count_by_the_change_of_their_norm() -> None:
    """Of two looked-up rows of ones one changes by a hundredth of its norm, and the other not at all."""
    words = nn.Embedding(10_000, 32)
    optimizers = trains(words)
    nn.init.ones_(words.weight)
    tables = large_tables(trained_modules(optimizers))
    seen = Lookups(tables)
    changes = RowChanges(tables, seen)
    words(torch.tensor([3, 7, 7, 7]))
    changes.before_step(optimizers[0][1])
    with torch.no_grad():
        words.weight[3] += 0.01
    changes.after_step()
    seen.end()
    rows = {row["change"]: row for row in changes.rows(tables[0])}
    assert rows[1e-3]["row_share"] == 0.5
    assert rows[1e-3]["lookup_share"] == 0.75
    assert rows[1e-1]["row_share"] == 1


def test_another_optimizer_compares_nothing() -> None:
    words, other = nn.Embedding(10_000, 32), nn.Linear(2, 2)
    tables = large_tables(trained_modules(trains(words)))
    seen = Lookups(tables)
    changes = RowChanges(tables, seen)
    words(torch.tensor([3]))
    changes.before_step(trains(other)[0][1])
    changes.after_step()
    seen.end()
    assert changes.rows(tables[0]) == []


def test_zeros_of_inputs_weights_and_gradients_are_counted() -> None:
    model = nn.Sequential(nn.Linear(8, 4, bias=False), nn.ReLU(), nn.Linear(4, 2, bias=False))
    with torch.no_grad():
        model[0].weight[:2] = -1.0
        model[0].weight[2:] = 1.0
        model[2].weight.fill_(1.0)
        model[2].weight[0] = 0.0
    zeros = Zeros(trained_modules(trains(model)))
    model(torch.ones(16, 8)).sum().backward()
    zeros.stop()
    first, last = sorted(zeros.rows(), key=lambda row: -row["multiplications"])
    # Two of four units are off: their gradients are zero, and so are the inputs of the last layer.
    assert (first["multiplications"], first["inputs"], first["weights"], first["gradients"]) == (
        16 * 8 * 4,
        0,
        0,
        0.5,
    )
    assert (last["multiplications"], last["inputs"], last["weights"], last["gradients"]) == (
        16 * 4 * 2,
        0.5,
        0.5,
        0,
    )
    assert not model[0]._forward_hooks


def test_bits_are_those_of_integers_whose_largest_is_the_tensor_s() -> None:
    """As 16-bit integers 32,767, 127, 7 and 0, which need 16, 8, 4 and 1 bits."""
    values = torch.tensor([[1.0, -127 / 32_767, 7 / 32_767, 0.0]])
    mean, eight, four = widths(values)
    assert (mean.item(), eight.item(), four.item()) == (7.25, 0.75, 0.5)
    just_above = torch.tensor([1.0, 128 / 32_767, 8 / 32_767])
    mean, eight, four = widths(just_above)
    assert mean.item() == pytest.approx((16 + 9 + 5) / 3)
    assert (eight.item(), four.item()) == (pytest.approx(1 / 3), 0)
    assert widths(torch.zeros(4))[0].item() == 1
    assert widths(torch.tensor([float("nan"), 0.5]))[0].item() == 16


def test_widths_come_with_the_zeros_of_the_same_iteration() -> None:
    model = nn.Sequential(nn.Linear(8, 4, bias=False), nn.Linear(4, 2, bias=False))
    with torch.no_grad():
        for layer in (model[0], model[1]):
            layer.weight.fill_(0.5)
    zeros = Zeros(trained_modules(trains(model)))
    given = torch.zeros(16, 8)
    given[:, :4] = 1.0
    for _ in range(2):
        model(given).sum().backward()
    zeros.stop()
    first = zeros.width_rows()[0]
    half = {"numbers": 2 * 16 * 8, "mean_bits": 8.5, "in_eight_bits": 0.5, "in_four_bits": 0.5}
    assert first["inputs"] == half
    assert first["weights"] == {"numbers": 32, "mean_bits": 16, "in_eight_bits": 0, "in_four_bits": 0}
    assert first["gradients"]["numbers"] == 2 * 16 * 4


def test_an_iteration_that_does_not_end_counts_nothing() -> None:
    """Two iterations look up four rows each; the script ends in the third, behind its last step."""
    words = nn.Embedding(10_000, 32)
    optimizers = trains(words)
    values = ValuesPass(optimizers, 64, 60.0, 40)
    for first in (0, 4, 8):
        words(torch.arange(first, first + 4)).sum().backward()
        values.after_backward([])
        if first < 8:
            values.before_step(optimizers[0][1])
            values.after_step(optimizers[0][1])
            values.end_iteration()
    told = values.end()
    assert (told["iterations"], told["after"], told["problem"]) == (2, 40, "")
    [row] = told["tables"]
    assert (row["lookups"], row["distinct_rows"]) == (4, 4)


def test_a_pass_reads_and_writes_nothing() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(10_000, 32), nn.Flatten(), nn.Dropout(0.5), nn.Linear(64, 1))
    optimizers = trains(model)

    def losses(values: ValuesPass | None) -> list[float]:
        torch.manual_seed(1)
        found: list[float] = []
        for _ in range(4):
            loss = model(torch.randint(10_000, (16, 2))).square().mean()
            loss.backward()
            if values is not None:
                values.after_backward([loss])
                values.before_step(optimizers[0][1])
                values.after_step(optimizers[0][1])
                values.end_iteration()
            model.zero_grad()
            found.append(loss.item())
        return found

    plain = losses(None)
    values = ValuesPass(optimizers, 4, 60.0)
    assert losses(values) == plain
    told = values.end()
    assert (told["iterations"], values.remaining, told["problem"]) == (4, 0, "")
    assert [row["path"].rpartition(".")[2] for row in told["zeros"]] == ["3"]
    assert [row["path"] for row in told["widths"]] == [row["path"] for row in told["zeros"]]
    assert [row["lookups"] for row in told["tables"]] == [32]
    assert told["tables"][0]["steady"][0]["row_share"] == 1
