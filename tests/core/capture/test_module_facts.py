"""Facts about modules, in this process: where they were made, the memory they keep, and how many are reported."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import pytest
import torch
from torch import nn

from skyline.capture.child import module_facts
from skyline.capture.child.devices.in_use import DevicesInUse
from skyline.capture.child.module_facts import options
from skyline.capture.child.module_lines import ModuleLines
from skyline.capture.child.observed_calls import ObservedCalls
from skyline.capture.child.recorded_facts import parallel, settings
from skyline.capture.child.recording.rows import kept_bytes


class Nested(nn.Module):
    """Makes another of its own class before its own ``nn.Module.__init__`` has run on anything else."""

    def __init__(self, depth: int) -> None:
        super().__init__()
        self.depth = depth
        self.inner = Nested(depth - 1) if depth else nn.Identity()


@pytest.fixture
def module_lines() -> Iterator[ModuleLines]:
    original = nn.Module.__init__
    module_lines = ModuleLines()
    module_lines.install()
    yield module_lines
    nn.Module.__init__ = original  # type: ignore[method-assign]


def test_a_module_is_made_where_its_class_is_called(module_lines: ModuleLines) -> None:
    outer = Nested(1)
    line = module_lines.line(outer)
    inner = module_lines.line(outer.inner)

    assert line["function"].endswith("test_a_module_is_made_where_its_class_is_called")
    assert inner["function"].endswith("__init__")
    assert inner["line"] != line["line"]


def test_what_a_library_makes_and_what_is_copied_has_no_line(module_lines: ModuleLines) -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 8)
    assert module_lines.line(layer) is not None
    assert module_lines.line(layer.linear1) is None
    assert module_lines.line(copy.deepcopy(layer)) is None


def test_of_very_many_modules_the_largest_are_told(
    monkeypatch: pytest.MonkeyPatch, module_lines: ModuleLines
) -> None:
    monkeypatch.setattr(module_facts, "MOST", 2)
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(9, 9), nn.Linear(5, 5))
    rows, count = module_facts.module_facts(
        model.named_modules(prefix="Sequential"), ObservedCalls(), module_lines
    )

    assert count == 5
    assert [row["path"] for row in rows] == ["Sequential.2", "Sequential.3"]


def test_a_model_that_does_not_train_is_left_out(module_lines: ModuleLines) -> None:
    frozen = nn.Linear(2, 2).requires_grad_(False)
    assert module_facts.module_facts([("Linear", frozen)], ObservedCalls(), module_lines) == ([], 0)


def test_a_kernel_of_one_point_lies_in_the_format_that_its_strides_say(module_lines: ModuleLines) -> None:
    def channels_last(conv: nn.Module) -> object:
        [row], _ = module_facts.module_facts([("Conv2d", conv)], ObservedCalls(), module_lines)
        return row["channels_last"]

    assert channels_last(nn.Conv2d(8, 8, 1)) is False
    assert channels_last(nn.Conv2d(8, 8, 1).to(memory_format=torch.channels_last)) is True


def test_options_of_library_and_own_modules() -> None:
    told = options(nn.Embedding(7, 3, sparse=True))
    assert (told["num_embeddings"], told["embedding_dim"], told["sparse"]) == (7, 3, True)
    attention = options(nn.MultiheadAttention(8, 2, dropout=0.5))
    assert (attention["num_heads"], attention["dropout"]) == (2, 0.5)
    assert options(Nested(0)) == {"depth": 0}


def test_kept_bytes_are_those_of_the_largest_micro_batch() -> None:
    def allocation(time: float, size: int, address: int, module: int, phase: str = "forward") -> dict:
        return {"time_us": time, "size_bytes": size, "address": address, "module": module, "phase": phase}

    allocations = [
        allocation(1, 100, 1, 0),
        allocation(2, 50, 2, 1),
        allocation(3, -50, 2, 1),
        allocation(4, 30, 3, 1),
        allocation(11, -100, 1, 0, "backward"),
        allocation(12, -30, 3, 1, "backward"),
        allocation(20, 40, 1, 1),
        allocation(31, -40, 1, 1, "backward"),
        allocation(40, 1000, 4, 0),
    ]
    records = [{"phase": "backward", "start_us": 10}, {"phase": "backward", "start_us": 30}]

    assert kept_bytes(allocations, records, ["Net", "Net.head"]) == {"Net": 130, "Net.head": 40}


def test_settings_that_contradict_each_other_are_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses() -> str:
        raise RuntimeError("mix of the legacy and new APIs")

    monkeypatch.setattr(torch, "get_float32_matmul_precision", refuses)
    told = settings(DevicesInUse(), "")
    assert told["matmul_precision"] is None
    assert told["autocast"] == ""
    assert told["compute_capability"] is None


def test_a_sharded_wrapper_is_known_by_its_name(module_lines: ModuleLines) -> None:
    class FullyShardedDataParallel(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.module = nn.Linear(3, 1)

    fact = parallel([FullyShardedDataParallel()], module_lines)
    assert fact is not None
    assert (fact["name"], fact["world_size"], fact["gradient_bytes"]) == ("FullyShardedDataParallel", 1, 16)
    assert parallel([nn.Linear(3, 1)], module_lines) is None


def test_parameters_that_a_model_lists_again_count_once(module_lines: ModuleLines) -> None:
    """Keras's models on PyTorch hold a dictionary of the parameters of all their layers."""

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.torch_params = nn.ParameterDict({"kernel": nn.Parameter(torch.ones(3, 2))})

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList([Layer(), Layer()])
            parameters = dict(zip("ab", self.parameters(), strict=True))
            self.torch_params = nn.ParameterDict(parameters)

    rows, _ = module_facts.module_facts(Model().named_modules(prefix="Model"), ObservedCalls(), module_lines)
    counts = {row["path"]: row["parameter_count"] for row in rows}
    assert counts["Model.torch_params"] == 0
    assert counts["Model.layers.0.torch_params"] == counts["Model.layers.1.torch_params"] == 6
    assert sum(counts.values()) == 12
