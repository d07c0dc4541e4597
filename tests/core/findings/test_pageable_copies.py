from __future__ import annotations

from dataclasses import replace

from skyline.findings.pageable_copies import RULE
from skyline.trace.facts import CallFact, LoaderFact
from skyline.trace.record import BareTimes, IterationMark, Phase, Record, RecordKind, Trace


def copying(profile, name="Memcpy HtoD (Pageable -> Device)"):
    """Each iteration copies 0.4 ms, waited for, before 0.5 ms of work on the GPU and 1 ms of the host's."""
    records, marks = [], []
    for index in range(4):
        begin = 2000.0 * index
        rows = [
            ("cudaMemcpyAsync", RecordKind.RUNTIME, "main", 0.0, 405.0, 2 * index + 1),
            (name, RecordKind.COPY, "stream 7", 5.0, 400.0, 2 * index + 1),
            ("cudaLaunchKernel", RecordKind.RUNTIME, "main", 405.0, 10.0, 2 * index + 2),
            ("sgemm", RecordKind.KERNEL, "stream 7", 415.0, 500.0, 2 * index + 2),
            ("python", RecordKind.PYTHON, "main", 415.0, 1585.0, 0),
        ]
        for what, kind, lane, at, took, key in rows:
            phase = Phase.OTHER if kind is RecordKind.PYTHON else Phase.FORWARD
            records.append(Record(what, kind, phase, lane, index, begin + at, took, 1, correlation=key))
        marks.append(IterationMark(index, begin, begin + 2000))
    trace = Trace(tuple(marks), profile.trace.lines, ("Linear",), tuple(records))
    times = BareTimes((2.0,) * 9, (0.0,) * 9, (0.0,) * 9, (0.0,) * 9)
    loader = LoaderFact(16, 1, 1000, 1.0, created_line=profile.trace.lines[0])
    return replace(profile, trace=trace, times=times, loaders=(loader,))


def test_a_copy_that_is_waited_for_is_found_at_its_line(gpu_profile, checked):
    line = gpu_profile.trace.lines[1]
    move = CallFact("to", 1.0, line, {"device": "cpu", "copies": True, "non_blocking": False})
    found = checked(RULE, replace(copying(gpu_profile), calls=(move,)))
    assert (found.line, found.whatif) == (line.line, "pin_memory")
    assert 0.2 < found.cost_ms < 0.5
    assert any("does not pin" in one.text for one in found.evidence)


def test_pinned_copies_and_scripts_without_a_gpu_are_left_alone(profile, gpu_profile, checked):
    assert checked(RULE, profile) is None
    assert checked(RULE, copying(gpu_profile, "Memcpy HtoD (Pinned -> Device)")) is None


def test_moves_of_what_is_there_already_are_not_named(gpu_profile, checked):
    stays = CallFact("to", 5.0, gpu_profile.trace.lines[2], {"device": "cuda", "copies": False})
    found = checked(RULE, replace(copying(gpu_profile), calls=(stays,)))
    assert found.line == gpu_profile.trace.lines[0].line
