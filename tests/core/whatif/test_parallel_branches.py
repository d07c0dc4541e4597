"""Branches on cores of their own: schedules of a few steps, and a step with two towers, worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from skyline.analysis.estimate import answer
from skyline.errors import UsageError
from skyline.trace.facts import ModuleFact
from skyline.trace.profile import SourceFile
from skyline.trace.record import (
    BareTimes,
    CodeLine,
    IterationMark,
    OperatorShape,
    Phase,
    Record,
    RecordKind,
    Trace,
)
from skyline.whatif.baseline import baseline
from skyline.whatif.catalogue.parallel.parallel_branches import WHATIF
from skyline.whatif.composition import detected_in
from skyline.whatif.cost.branch_schedule import Work, Workers, scheduled, schedules, stretches
from skyline.whatif.question import Choice


def needs(*each):
    return [frozenset(one) for one in each]


def test_stretches_lie_between_steps_that_all_wait_for():
    # 0, then 1 and 2 side by side, 3 joins them, 4 and the chain of 5 and 6, 7 joins them.
    assert stretches(needs((), (0,), (0,), (1, 2), (3,), (3,), (5,), (4, 6))) == ((1, 2), (4, 5, 6))
    assert stretches(needs((), (0,), (1,))) == ()
    assert stretches(needs((), (), ())) == ((0, 1, 2),)
    # A way around a step is a branch of its own only where it has a step.
    assert stretches(needs((), (0,), (0, 1))) == ()
    with pytest.raises(ValueError, match="needs step"):
        stretches(needs((1,), ()))


def work(us, *needed, apart=None, **given):
    return Work(us, us if apart is None else apart, frozenset(needed), **given)


def test_the_longest_way_goes_first_and_hand_overs_count():
    works = [work(100), work(60), work(50)]
    found = scheduled(works, (0, 1, 2), Workers(2, 5, 1.0))
    # One worker has 100 from 5 on, the other 60 and 50, which end at 115, and are handed back after 5 more.
    assert (found.alone_us, found.span_us, found.used) == (210, 120, 2)
    assert found.limit == "threads"
    free = scheduled(works, (0, 1, 2), Workers(3, 0, 1.0))
    assert (free.span_us, free.limit) == (100, "branch")


def test_each_branch_is_a_call_and_python_makes_one_at_a_time():
    works = [work(10), work(10), work(10), work(10)]
    # Two of 10 on each worker, with a call of 4 each, and 1 at both ends.
    assert scheduled(works, (0, 1, 2, 3), Workers(2, 1, 1.0, call_us=4)).span_us == 2 * 14 + 2
    many = scheduled(works, (0, 1, 2, 3), Workers(4, 1, 1.0, call_us=20))
    assert (many.span_us, many.limit) == (80, "python")
    # A step that follows on its own worker is no call, and a step without work neither.
    chain = [work(40), work(40, 0), work(80), work(0)]
    assert scheduled(chain, (0, 1, 2, 3), Workers(2, 0, 1.0, call_us=3)).span_us == 83


def test_threads_that_spin_take_a_share_of_the_cores():
    works = [work(1500), work(1500)]
    # On two cores three threads are ready: each has two thirds of a core.
    busy = scheduled(works, (0, 1), Workers(2, 0, 1.0, spinning=1, cores=2))
    assert (busy.span_us, busy.limit) == (2250, "branch")
    lost = scheduled([work(1100), work(1100)], (0, 1), Workers(2, 600, 1.0, spinning=1, cores=2))
    assert (lost.span_us, lost.limit) == (3450, "threads")
    # Without them the branches would gain.
    won = scheduled(works, (0, 1), Workers(2, 400, 1.0, spinning=1, cores=2))
    assert (won.alone_us, won.span_us, won.limit) == (3000, 3450, "spinning")
    # They sleep after 4 ms, in which the branches have done what takes 4 / 1.5 ms.
    long = [work(6000), work(6000)]
    assert scheduled(long, (0, 1), Workers(2, 0, 1.0, spinning=1, cores=2)).span_us == pytest.approx(
        4000 + 6000 - 4000 / 1.5
    )
    # A worker that stays on the core of one has half of it; a third core is free for it.
    assert scheduled(works, (0, 1), Workers(2, 0, 1.0, spinning=1, cores=2, kept=True)).span_us == 3000
    assert scheduled(works, (0, 1), Workers(2, 0, 1.0, spinning=1, cores=3)).span_us == 1500
    # Two workers of two threads, and one that spins, on four cores.
    assert scheduled(works, (0, 1), Workers(2, 0, 1.0, threads=2, spinning=1, cores=4)).span_us == 1875


def test_bytes_of_a_cut_take_time():
    works = [work(100, taken_bytes=200.0), work(60, taken_bytes=500.0)]
    cheap, costly = (scheduled(works, (0, 1), Workers(2, 5, rate)).span_us for rate in (100.0, 5.0))
    assert (cheap, costly) == (5 + 2 + 100 + 5, 5 + 100 + 60 + 5)


def test_a_chain_stays_on_its_worker():
    # 0 and 1 are a chain of 80, as is 2 alone: 1 does not leave the worker of 0.
    works = [work(40), work(40, 0), work(80)]
    assert scheduled(works, (0, 1, 2), Workers(2, 10, 1.0)).span_us == 80 + 10 + 10


def test_python_and_memory_are_there_once():
    for bound in ("python", "memory"):
        works = [work(100, **{f"{bound}_us": 90.0}), work(100, **{f"{bound}_us": 90.0})]
        found = scheduled(works, (0, 1), Workers(2, 0, 1.0))
        assert (found.span_us, found.limit) == (180, bound)


def test_steps_that_all_wait_for_are_in_no_schedule():
    works = [work(10), work(100, 0, apart=180), work(100, 0, apart=180), work(10, 1, 2)]
    (found,) = schedules(works, Workers(2, 0, 1.0))
    assert (found.steps, found.alone_us, found.span_us) == ((1, 2), 200, 180)


CODE = """\
class Net(nn.Module):
    def forward(self, x):
        x = self.stem(x)
        one = self.left(x)
        two = self.right(x)
        return self.head(torch.cat([one, two], 1))
"""
CHAIN = CODE.replace("two = self.right(x)", "two = self.right(one)").replace("[one, two]", "[two]")
SHAPE = OperatorShape(
    "aten::linear", ((16, 250), (8, 8)), ("float32",) * 2, ((16, 250),), ("float32",), 1_000_000_000, 32_000
)
NAMES = ("stem", "left", "right", "head")
MODULES = ("Net", *(f"Net.{name}" for name in NAMES))
FORWARD = (("stem", 1000.0, 3), ("left", 3000.0, 4), ("right", 2000.0, 5), ("head", 1000.0, 6))


def network(profile, code=CODE, cores=4, threads=2, gap_us=0.0, known=True):
    """Passes of 7 ms and 14 ms: a stem, two towers of 3 ms and 2 ms, a head; backward twice as much."""
    records: list[Record] = []
    marks: list[IterationMark] = []
    now = 0.0
    for index in range(3):
        begin = now
        for name, kind, phase, module, took, line in [
            *(("aten::linear", RecordKind.OPERATOR, Phase.FORWARD, *one) for one in FORWARD),
            *(
                ("AddmmBackward0", RecordKind.OPERATOR, Phase.BACKWARD, module, 2 * took, line)
                for module, took, line in reversed(FORWARD)
            ),
        ]:
            place = MODULES.index(f"Net.{module}")
            own = took - gap_us
            shape = 0 if phase is Phase.FORWARD else -1
            records.append(
                Record(name, kind, phase, "main", index, now, own, module=place, shape=shape, line=line - 3)
            )
            if gap_us:
                python = Record("python", RecordKind.PYTHON, phase, "main", index, now + own, gap_us)
                records.append(replace(python, module=place, line=line - 3))
            now += took
        marks.append(IterationMark(index, begin, now))
    lines = tuple(CodeLine("/project/net.py", number, "Net.forward") for number in (3, 4, 5, 6))
    trace = Trace(tuple(marks), lines, MODULES, tuple(records), shapes=(SHAPE,))
    facts = (
        ModuleFact(
            "Net", "Net", False, 0, True, {}, class_line=CodeLine("/project/net.py", 2, "Net.forward")
        ),
        *(ModuleFact(f"Net.{name}", "Linear", True, 64, True, {}) for name in NAMES),
    )
    return replace(
        profile,
        environment=replace(profile.environment, cpu_count=cores, intraop_threads=threads),
        sources=(*profile.sources, *((SourceFile("/project/net.py", "0" * 64, code),) if known else ())),
        trace=trace,
        times=BareTimes((21.0,) * 9, (0.0,) * 9, (14.0,) * 9, (0.0,) * 9),
        loaders=(),
        modules=facts,
        trials=(),
    )


def asked(subject, value=""):
    return answer(subject, [Choice("parallel_branches", value)])


HANDED_MS = (69 + 1.6) / 1e3
"""A branch given to a thread and back, and the 16,000 bytes that it takes in."""
DIVIDED_MS = 21 - 5 - 10 + 1.25 * (3 + HANDED_MS) + (6 + HANDED_MS) + 4 * (1 - 1 / 1.25)
"""On four cores two workers of two threads, and one thread that spins: each has four fifths of a core for 4 ms."""


def test_two_towers_on_free_cores_by_hand(profile, monkeypatch):
    """Four cores, two threads: each of two workers computes on two threads, as now, and no operator gets slower.

    The longer tower decides: forward 3 ms in place of 5, backward 6 in place of 10, and what the second thread of the
    script's operators takes by spinning.
    """
    monkeypatch.setattr("skyline.analysis.estimate.beyond_model", lambda *_: 0.0)
    monkeypatch.setattr("skyline.analysis.estimate.process_spread", lambda *_: 0.0)
    found = asked(baseline(network(profile)), "2")
    assert found.iteration_ms.value == pytest.approx(DIVIDED_MS, rel=1e-3)
    # At best it sleeps; at worst a worker has half a core until it does, after 4 ms.
    assert found.iteration_ms.low == pytest.approx(6 + 3 + 6 + 2 * 0.0516, rel=0.01)
    assert found.iteration_ms.high == pytest.approx(6 + 3 + 2 + 6 + 2 + 2 * 0.0756, rel=0.01)
    assert (found.semantics, found.provenance) == ("exact", "modelled")
    assert (
        "backward pass of left, right: 10.0 ms one after another, 6.87 ms on 2 workers" in found.assumptions
    )
    assert "each of 2 workers computes on 2 threads" in found.assumptions


def test_more_threads_than_cores_do_not_spin(profile):
    """On four cores two of three threads would spin, but with two workers of two OpenMP has five.

    Else the towers would take half as long again, more than the 5 ms of the forward pass. On one thread nothing spins,
    and nothing is divided further.
    """
    alone = asked(baseline(network(profile, threads=1)), "2")
    assert alone.iteration_ms.value == pytest.approx(6 + 3 + 6 + 2 * HANDED_MS, rel=1e-3)
    crowded = asked(baseline(network(profile, threads=3)), "2")
    assert any("forward pass of left, right: 5.00 ms one after another" in one for one in crowded.assumptions)


def test_cores_that_are_all_in_use_are_divided(profile):
    """On two cores each tower has one thread: nothing is won by work that two threads halve."""
    subject = baseline(network(profile, cores=2))
    reason = detected_in(subject, WHATIF).reason
    assert "left, right take 10.0 ms one after another and" in reason
    assert "on 2 workers of 1 thread" in reason
    assert "takes that long on the cores that are its share" in reason


def test_a_gain_that_spinning_takes_is_named(profile):
    """With 1.9 ms of Python in each tower two workers of one thread gain a little, and a third thread takes it."""
    reason = detected_in(baseline(network(profile, cores=2, gap_us=1900.0)), WHATIF).reason
    assert "left, right take 10.0 ms one after another" in reason
    assert "spin on cores that the branches need" in reason


def test_python_is_not_divided(profile):
    """Of the towers' 5 ms and 10 ms half and more are Python, which takes turns."""
    with_python = asked(baseline(network(profile, gap_us=1900.0)), "2").iteration_ms.value
    assert with_python == pytest.approx(21 - 15 + 1.25 * (3.8 + 0.056) + 6.87, rel=0.01)


def test_more_workers_than_cores_are_refused(profile):
    subject = baseline(network(profile))
    assert "there are 4" in asked(subject, "8").reason
    for value in ("1", "0", "x"):
        with pytest.raises(UsageError, match="not possible"):
            asked(subject, value)
    both = answer(subject, [Choice("parallel_branches", "2"), Choice("cpu_threads", "4")])
    assert "together" in both.reason


def test_a_container_of_towers(profile):
    """The elements are apart, and a loop that hands something on is not."""
    code = CODE.replace("one = self.left(x)", "h = [tower(x) for tower in self.towers]").replace(
        "two = self.right(x)", "pass"
    )
    made = network(profile, code=code.replace("[one, two]", "h"))
    paths = {"Net.left": "Net.towers.0", "Net.right": "Net.towers.1"}
    modules = tuple(replace(one, path=paths.get(one.path, one.path)) for one in made.modules)
    box = ModuleFact("Net.towers", "ModuleList", True, 0, False, {}, calls_per_iteration=0.0)
    trace = replace(made.trace, modules=tuple(paths.get(one, one) for one in made.trace.modules))
    made = replace(made, modules=(*modules, box), trace=trace)
    found = asked(baseline(made), "2")
    assert found.iteration_ms.value == pytest.approx(DIVIDED_MS, rel=1e-3)
    assert any("towers.0, towers.1" in one for one in found.assumptions)
    looped = code.replace("h = [tower(x) for tower in self.towers]", "for t in self.towers: x = t(x)")
    source = SourceFile("/project/net.py", "0" * 64, looped.replace("[one, two]", "x"))
    chained = replace(made, sources=(source,))
    assert "no branch is independent" in detected_in(baseline(chained), WHATIF).reason


def test_reasons_where_there_are_no_branches(profile, gpu_profile):
    def reason(made):
        return detected_in(baseline(made), WHATIF).reason

    assert "no branch is independent" in reason(network(profile, code=CHAIN))
    assert "not in the profile" in reason(network(profile, known=False))
    assert "the machine has one core" in reason(network(profile, cores=1, threads=1))
    assert "only for runs on a CPU" in reason(gpu_profile)
    helper = CODE.replace("self.head(", "self.finish(")
    assert "a method of its own, finish" in reason(network(profile, code=helper))
    # The code calls other modules than those that were recorded.
    other = CODE.replace("self.left", "self.stem").replace("self.right", "self.stem")
    assert "in none of its steps" in reason(network(profile, code=other))
