from __future__ import annotations

from dataclasses import replace

from skyline.findings.crowded_cores import RULE
from skyline.trace.facts import LoaderFact


def machine(profile, cores, threads, workers, data_ms=0.1):
    times = replace(profile.times, data_ms=tuple(data_ms for _ in profile.times.steps_ms))
    environment = replace(profile.environment, cpu_count=cores, intraop_threads=threads)
    loader = LoaderFact(16, workers, 10_000, 1.0, created_line=profile.loop_line)
    return replace(profile, environment=environment, times=times, loaders=(loader,))


def test_more_threads_than_cores(profile, checked):
    found = checked(RULE, machine(profile, 2, 8, 0))
    assert "8 threads" in found.title
    assert found.line == 0
    assert (found.whatif == "cpu_threads") == (found.cost_ms > 0)


def test_far_more_workers_than_cores(profile, checked):
    found = checked(RULE, machine(profile, 4, 2, 12))
    assert "12 loader workers share 4 cores" in found.title
    assert found.line == 4


def test_idle_workers_and_free_cores_are_left_alone(profile, traced, checked):
    assert checked(RULE, machine(profile, 4, 4, 2)) is None
    assert checked(RULE, machine(profile, 8, 2, 4, data_ms=4.0)) is None
    assert checked(RULE, machine(profile, 2, 2, 0)) is None
    assert checked(RULE, traced) is None
