from __future__ import annotations

import pytest

from skyline.analysis.estimate import answer as answered
from skyline.analysis.estimate import ranked
from skyline.cli.command_line import parse_question
from skyline.errors import UsageError
from skyline.graph.selection import select
from skyline.graph.task import TaskKind
from skyline.report.answers import answers_report
from skyline.trace.record import Phase
from skyline.whatif.composition import compose
from skyline.whatif.question import Choice
from skyline.whatif.registry import whatifs
from skyline.whatif.subject import REFUSED_REPLAY


def answer(recording, *names):
    return answered(recording, tuple(map(Choice.parse, names)))


def why_not(recording, name):
    found = whatifs()[name].detect(recording)
    assert not found.applicable
    return found.reason


def test_all_are_found_and_the_loader_comes_last() -> None:
    names = list(whatifs())
    assert set(names) >= {"amp", "cuda_graphs", "fused_optimizer", "num_workers", "pin_memory", "remove_sync"}
    assert names[-4:] == ["cpu_threads", "num_workers", "persistent_workers", "prefetch_factor"]


def test_the_surest_gain_comes_first(gpu) -> None:
    answers = ranked(gpu)
    speeds = [one.speedup_range.low for one in answers if one.applicable]
    assert speeds == sorted(speeds, reverse=True)
    assert [one.applicable for one in answers] == sorted((one.applicable for one in answers), reverse=True)


def test_intervals_hold_their_values(gpu, cpu) -> None:
    for one in (*ranked(gpu), *ranked(cpu)):
        for interval in (one.iteration_ms, one.change_ms):
            assert interval.low <= interval.value <= interval.high
        assert one.iteration_ms.low > 0


def test_no_waiting_for_the_value_that_is_read(gpu) -> None:
    # The script waits from 580 until the copy ends at 694; that wait goes, and no other work gets in the way.
    found = answer(gpu, "remove_sync")
    assert -0.13 < found.change_ms.value < -0.08
    assert found.change_ms.high > 0.6 * found.change_ms.value


def test_sixteen_bits_help_what_the_gpu_bounds(gpu) -> None:
    found = answer(gpu, "amp")
    # At most half of both products and a quarter of the other kernels of the passes, which the script waits for.
    assert -(60 + 120) / 2e3 - 70 / 4e3 <= found.change_ms.value < 0
    assert found.semantics == "numerics"
    assert found.peak_bytes is None


@pytest.mark.parametrize(
    ("capability", "kernel", "reason"),
    [(6, "sgemm", "no units for 16-bit products"), (8, "ampere_bf16_s16816gemm", "in 16 bits already")],
)
def test_sixteen_bits_where_they_are_of_no_use(changed, capability, kernel, reason) -> None:
    properties = [{"id": 0, "name": "GPU", "computeMajor": capability, "computeMinor": 0}]
    one = changed(
        lambda event: {**event, "name": kernel} if "sgemm" in event["name"] else event,
        deviceProperties=properties,
    )
    assert reason in why_not(one, "amp")


def test_a_gpu_without_bfloat16_is_offered_float16(changed) -> None:
    one = changed(
        lambda event: event, deviceProperties=[{"id": 0, "name": "GPU", "computeMajor": 7, "computeMinor": 0}]
    )
    found = whatifs()["amp"].detect(one)
    assert found.values == ("fp16",)
    assert answer(one, "amp").title.endswith("float16")
    assert any("script waits" in text for text in answer(one, "amp").assumptions)
    assert "no TF32" in why_not(one, "tf32")


def test_pinned_memory_lets_the_script_go_on(gpu, changed) -> None:
    assert answer(gpu, "pin_memory").change_ms.value == pytest.approx(-0.025, abs=0.01)
    pinned = changed(lambda event: {**event, "name": event["name"].replace("Pageable", "Pinned")})
    assert "pageable" in why_not(pinned, "pin_memory")


def test_graphs_leave_the_gpu_s_work(gpu, changed) -> None:
    found = answer(gpu, "cuda_graphs")
    assert found.change_ms.value < 0
    within = changed(
        lambda event: {**event, "ts": event["ts"] - 125} if "Synchronize" in event["name"] else event
    )
    assert "waits for the GPU" in why_not(within, "cuda_graphs")


def test_a_fused_step_costs_a_call_per_tensor(gpu, changed) -> None:
    found = answer(gpu, "fused_optimizer")
    # 265 µs of host time become 2 tensors of one call of 40 µs, and 50 µs.
    assert found.change_ms.value == pytest.approx(-0.135, abs=0.02)
    assert any("2 tensors" in one for one in found.assumptions)

    def renamed(name):
        return changed(lambda event: {**event, "name": name} if event["name"] == "aten::mul_" else event)

    assert "fused already" in why_not(renamed("aten::_fused_sgd_"), "fused_optimizer")


def test_a_step_for_many_tensors_becomes_two_calls(gpu, changed) -> None:
    """Four calls of 40 µs become two; the kernels move 20 bytes a parameter in place of 32."""

    def many(event):
        names = {"aten::mul_": "aten::_foreach_mul_", "aten::add_": "aten::_foreach_add_"}
        return {**event, "name": names.get(event["name"], event["name"])}

    subject = changed(many)
    found = answer(subject, "fused_optimizer")
    assert any("4 calls for many tensors" in one for one in found.assumptions)
    before, after = subject.graph, compose(subject, [Choice("fused_optimizer")]).scenario.graph
    kernels = select(before, kind=TaskKind.KERNEL, phase=Phase.OPTIMIZER)
    assert after.durations[kernels] == pytest.approx(20 / 32 * before.durations[kernels])
    host = select(before, phase=Phase.OPTIMIZER, kind=(TaskKind.CPU, TaskKind.LAUNCH))
    saved = (before.durations + before.gaps - after.durations - after.gaps)[host].sum()
    assert saved / subject.steps == pytest.approx(80.0, rel=0.01)
    plain = changed(lambda event: many(event) if event["name"] == "aten::add_" else event)
    assert "moves no fewer bytes" in why_not(plain, "fused_optimizer")


def test_workers_take_the_loading_away(gpu, cpu, changed) -> None:
    # Taking a batch from a worker costs more than these 300 µs of making one.
    assert answer(gpu, "num_workers=1").change_ms.value > 0
    slow = changed(lambda event: {**event, "ts": event["ts"] * 10, "dur": event["dur"] * 10})
    found = answer(slow, "num_workers=2")
    # 3 ms of loading are gone, about 1 ms of taking stays.
    assert found.change_ms.value == pytest.approx(-2.1, abs=0.4)
    assert found.provenance == "modelled"
    with pytest.raises(UsageError, match="num_workers=none"):
        answer(gpu, "num_workers=none")


def test_a_longer_queue_is_asked_with_the_workers(gpu) -> None:
    alone = answer(gpu, "prefetch_factor=4")
    assert not alone.applicable
    both = answer(gpu, "num_workers=2", "prefetch_factor=4")
    assert both.applicable
    assert both.iteration_ms.value == pytest.approx(answer(gpu, "num_workers=2").iteration_ms.value, rel=0.01)


def test_workers_that_are_there_already(changed) -> None:
    one = changed(lambda event: {**event, "name": event["name"].replace("_Single", "_Multi")})
    one = changed(
        lambda event: {**event, "name": event["name"].replace("_SingleProcess", "_MultiProcessing")}
    )
    assert "already has workers" in why_not(one, "num_workers")


def test_together_is_simulated_and_not_added(gpu) -> None:
    both = answer(gpu, "tf32", "remove_sync")
    apart = [answer(gpu, name) for name in ("tf32", "remove_sync")]
    assert both.name == "combined"
    assert both.value == "tf32 remove_sync"
    assert min(one.iteration_ms.value for one in apart) + 0.001 >= both.iteration_ms.value
    # Both shorten the same wait: together they bring less than the sum.
    assert both.change_ms.value > sum(one.change_ms.value for one in apart)


def test_what_a_trace_does_not_tell(gpu) -> None:
    found = answer(gpu, "batch_size=64")
    assert not found.applicable
    assert "a trace does not show this" in (found.reason or "")
    assert found.change_ms.value == 0
    assert found.throughput is None


def test_an_unknown_name_or_one_asked_twice() -> None:
    with pytest.raises(UsageError, match="no what-if 'ampp'"):
        parse_question(["ampp"])
    with pytest.raises(UsageError, match="twice"):
        parse_question(["amp", "amp=bf16"])


def test_a_model_that_does_not_hold_answers_nothing(gpu) -> None:
    from dataclasses import replace

    off = replace(gpu, replay_error=0.2)
    assert off.replay_error > REFUSED_REPLAY
    for one in ranked(off):
        assert not one.applicable
        assert one.change_ms.value == 0
        assert "does not fit this trace" in (one.reason or "")


def test_what_bounds_the_step_stands_beside_the_answers(gpu, cpu) -> None:
    """Busy: 60 + 30 of the forward pass, 40 + 120 of the backward pass, copies and four kernels of the update."""
    start = answers_report(gpu).baseline
    assert list(start.gpu_busy) == ["gpu0"]
    assert start.gpu_busy["gpu0"] == pytest.approx(0.41, abs=0.03)
    shares = [getattr(start.bounded_by, name) for name in ("cpu", "gpu_compute", "launch", "data", "idle")]
    assert sum(shares) == pytest.approx(1.0, abs=0.01)
    assert answers_report(cpu).baseline.gpu_busy == {}
