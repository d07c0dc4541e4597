"""What a run computes at last in other ways: on other threads, in other number formats, at other batch sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from skyline.attempt import Attempts
from skyline.capture.assemble import ScriptRun
from skyline.capture.child_process import ChildProcess, ScriptEnded
from skyline.capture.iteration_trials import iteration_trials, trials_elsewhere
from skyline.capture.product_trials import product_trials
from skyline.capture.rounds import Contender
from skyline.trace.iteration_trial import IterationTrial
from skyline.trace.product_trial import ProductTrial

_LEAST_FOR_TRIALS = 24
"""A script with fewer iterations after its warm-up ends before the manners that matter are tried."""
_COMPILED = "torch.compile"
"""Compiled code is made for one number of threads and one format: for others it would be compiled anew."""


def trials_wanted(run: ScriptRun) -> bool:
    """Whether anything is to be tried: on CPUs, in scripts that go on for long enough."""
    ended_soon = run.ended_after is not None and run.ended_after < run.ready.warmup + _LEAST_FOR_TRIALS
    wanted = run.request.batch_points > 0 if run.request.trials is None else run.request.trials
    return wanted and run.facts.environment.device.kind == "cpu" and not ended_soon


def with_trials(
    run: ScriptRun,
    child: ChildProcess,
    others: Sequence[Contender],
    late: Attempts,
    *,
    anew: Callable[[], ChildProcess],
) -> ScriptRun:
    """The run with what was tried in its ``child``, or in one made ``anew`` where its script comes to its end.

    ``others`` are runs at other batch sizes, in the smallest and the largest of which the same is tried.
    """
    if _may_go_on(run):
        tried = late.to(
            "try other threads and number formats",
            lambda: iteration_trials(
                child,
                run.recording.trace,
                run.facts.environment,
                run.recording.settings,
                run.rows.median_ms,
                anew=anew,
            ),
            (),
            ended=ScriptEnded,
        )
        if tried:
            elsewhere = late.to(
                "try other threads and number formats at other batch sizes",
                lambda: tuple(_elsewhere(run, others, tried)),
                (),
                ended=ScriptEnded,
            )
            return replace(run, iteration_trials=(*tried, *elsewhere))
    products = late.to(
        "try products in other number formats", lambda: _products(run, child, anew), (), ended=ScriptEnded
    )
    return replace(run, product_trials=products)


def _may_go_on(run: ScriptRun) -> bool:
    """Whether iterations in another manner do no harm: neither lasting effects nor compiling anew."""
    alone = run.facts.world_size == 1 and run.request.side_effects == "redirect"
    return alone and _COMPILED not in run.facts.styles


def _elsewhere(
    run: ScriptRun, others: Sequence[Contender], tried: tuple[IterationTrial, ...]
) -> Iterator[IterationTrial]:
    """In the smallest and in the largest batch that is quick enough."""
    # One that never had its turn, since the script ended in the base's, shows nothing to be held against.
    measured = sorted((one for one in others if one.alive and one.rows.rows), key=lambda one: one.batch_size)
    own = run.batch_size or 0
    for outermost in (
        [one for one in measured if one.batch_size < own],
        [one for one in measured if one.batch_size > own][::-1],
    ):
        for one in outermost:
            step_ms = one.rows.median_ms
            found = trials_elsewhere(one.child, one.batch_size, step_ms, run.recording.trace, tried)
            yield from found
            if found:
                break


def _products(
    run: ScriptRun, child: ChildProcess, anew: Callable[[], ChildProcess]
) -> tuple[ProductTrial, ...]:
    trace, modules, environment = run.recording.trace, run.recording.modules, run.facts.environment
    try:
        return product_trials(child, trace, modules, environment)
    except ScriptEnded:
        return product_trials(anew(), trace, modules, environment)
