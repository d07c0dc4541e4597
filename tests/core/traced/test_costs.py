from __future__ import annotations

import pytest

from skyline.analysis.traced_costs import (
    billing,
    function_costs,
    layer_costs,
    line_costs,
    operator_costs,
    sensitivity,
)


def test_phases_and_idle_time_sum_to_the_step(gpu, cpu) -> None:
    for one in (gpu, cpu):
        bill = billing(one.recorded)
        assert bill.phases.total + bill.idle_ms == pytest.approx(one.running_ms.value)


def test_operators_are_what_called_the_gpu_s_work(gpu) -> None:
    costs = {cost.name: cost for cost in operator_costs(gpu.recorded, billing(gpu.recorded), 20)}
    assert set(costs) == {
        "DataLoader.__next__", "aten::to", "aten::linear", "aten::relu", "ReluBackward0", "AddmmBackward0",
        "aten::item", "aten::mul_", "aten::add_",
    }  # fmt: skip
    assert costs["aten::linear"].gpu_ms == pytest.approx(0.060, abs=0.002)
    assert costs["AddmmBackward0"].gpu_ms == pytest.approx(0.120, abs=0.002)
    assert costs["aten::add_"].kernels == 2
    assert sum(cost.own_ms for cost in costs.values()) <= 1.0 + 1e-9
    assert costs["DataLoader.__next__"].saved_ms == pytest.approx(0.32, abs=0.005)


def test_what_overlaps_saves_less_than_it_takes(gpu) -> None:
    costs = {cost.name: cost for cost in operator_costs(gpu.recorded, billing(gpu.recorded), 20)}
    # The product runs on the GPU while the script launches what comes after it.
    product = costs["aten::linear"]
    assert product.saved_ms is not None
    assert product.saved_ms < product.own_ms


def test_layers_come_from_calls_of_modules(gpu) -> None:
    costs = {cost.name: cost for cost in layer_costs(gpu.recorded, billing(gpu.recorded), 10)}
    assert set(costs) == {"Linear_0", "ReLU_0"}
    # With its backward pass: by the sequence number.
    assert costs["Linear_0"].gpu_ms == pytest.approx(0.180, abs=0.003)
    assert costs["ReLU_0"].gpu_ms == pytest.approx(0.070, abs=0.003)


def test_a_layer_that_holds_nearly_everything_is_opened(changed) -> None:
    def around(event):
        if event["name"].startswith("nn.Module"):
            return event
        if event["name"] == "aten::to":
            begin = event["ts"] + 45
            return {
                "ph": "X", "cat": "python_function", "name": "nn.Module: Model_0", "pid": 1, "tid": 1, "ts": begin,
                "dur": 90, "args": {"Python id": 1, "Python module id": 9},
            }  # fmt: skip
        return event

    one = changed(around)
    assert [cost.name for cost in layer_costs(one.recorded, billing(one.recorded), 10)] == [
        "Model_0.Linear_0",
        "Model_0.ReLU_0",
    ]


def test_lines_come_from_call_stacks(changed) -> None:
    def stacked(event):
        if event["name"] not in ("aten::linear", "aten::relu"):
            return event
        line = 10 if event["name"] == "aten::linear" else 11
        frames = (
            f"torch/nn/functional.py(2): f;/home/ada/model.py({line}): forward;/home/ada/train.py(5): main"
        )
        return {**event, "args": {**event["args"], "Call stack": frames}}

    one = changed(stacked)
    costs = {cost.name: cost for cost in line_costs(one.recorded, billing(one.recorded), 10)}
    assert set(costs) == {"/home/ada/model.py:10", "/home/ada/model.py:11"}
    assert costs["/home/ada/model.py:10"].gpu_ms == pytest.approx(0.180, abs=0.003)


def test_functions_come_from_recorded_calls(changed) -> None:
    numbers = iter(range(1, 1000))

    def call(name, begin, duration):
        args = {"Python id": next(numbers)}
        return {"ph": "X", "cat": "python_function", "name": name, "pid": 1, "tid": 1, "ts": begin, "dur": duration,
                "args": args}  # fmt: skip

    further = []
    for at in range(0, 5000, 1000):
        further += [
            call("model.py(8): forward", at + 365, 95),
            call("torch/nn/modules/linear.py(100): forward", at + 368, 35),
            call("enum.py(20): __hash__", at + 369, 33),
            call("layers/mine.py(4): activation", at + 408, 36),
            call("train.py(30): <module>", at + 1, 990),
        ]
    one = changed(lambda event: event, further)
    costs = {cost.name: cost for cost in function_costs(one.recorded, billing(one.recorded), 10)}
    assert set(costs) == {"model.py(8): forward", "layers/mine.py(4): activation", "train.py(30): <module>"}
    # Backward work by its sequence number; what the frameworks' functions do is their caller's.
    assert costs["model.py(8): forward"].gpu_ms == pytest.approx(0.180, abs=0.003)
    assert costs["layers/mine.py(4): activation"].gpu_ms == pytest.approx(0.070, abs=0.003)
    assert costs["train.py(30): <module>"].kernels == 2 + 4
    assert not line_costs(one.recorded, billing(one.recorded), 10)


def test_a_recording_without_a_gpu(cpu) -> None:
    bill = billing(cpu.recorded)
    assert bill.gpu_share == 0
    costs = operator_costs(cpu.recorded, bill, 30)
    assert {"aten::linear", "AddmmBackward0", "aten::cross_entropy_loss", "aten::add_"} <= {
        c.name for c in costs
    }
    assert all(cost.gpu_ms == 0 for cost in costs)
    # On one thread nothing overlaps: what is free is gone.
    assert all(cost.saved_ms == pytest.approx(cost.own_ms, rel=0.5) for cost in costs[:5])


def test_the_side_that_bounds_the_step_is_the_one_whose_speed_counts(gpu, cpu) -> None:
    for one in (gpu, cpu):
        found = sensitivity(one)
        assert found.host_ms is not None
        assert 0.5 * one.running_ms.value <= found.host_ms < 0.9 * one.running_ms.value
        assert (found.gpu_ms is None) == (one is cpu)
        assert found.communication_ms is None


@pytest.mark.parametrize("published", ["hta_v100_resnet50_ddp1"], indirect=True)
def test_a_step_that_the_gpu_bounds(published) -> None:
    bound = published.subject
    found = sensitivity(bound)
    assert found.gpu_ms == pytest.approx(bound.running_ms.value / 2, rel=0.02)
    assert found.host_ms == pytest.approx(bound.running_ms.value, rel=0.02)
    assert found.data_ms is None


def test_collectives_are_a_kind_of_their_own(changed) -> None:
    one = changed(
        lambda event: (
            {**event, "name": "ncclKernel_AllReduce_RING_LL"} if event["name"] == "ampere_sgemm_nt" else event
        )
    )
    found = sensitivity(one)
    assert found.communication_ms is not None
    # The script waits for it: 120 µs become 60.
    assert found.communication_ms == pytest.approx(0.94, abs=0.01)
