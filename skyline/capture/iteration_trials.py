"""Has the script compute a few iterations in other configs: on other threads, under autocast, and both.

What every operator of the script takes then is seen where it runs, with its own tensors in the caches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from skyline.capture.align_trials import iteration_trial
from skyline.capture.bare import run_bare
from skyline.capture.child_process import ChildProcess, ScriptEnded
from skyline.capture.events import StepRow
from skyline.capture.recording import record_lightly
from skyline.errors import BudgetExceeded, ScriptFailed
from skyline.trace.facts import Environment, TorchSettings
from skyline.trace.iteration_trial import AS_IT_STANDS, IterationTrial
from skyline.trace.product_trial import PRODUCTS
from skyline.trace.record import Trace

_NARROW_FORMAT = "bfloat16"
_WIDE_FORMAT = "float32"
_NARROW_FROM = "avx512f"
"""With fewer instructions bfloat16 takes so long that nobody would want it."""
_ALL_TIMES = 5.6
"""What the configs take one after another, over what the script as it stands does: one thread takes up to twice."""
_MANNERS = 4
_NARROW_SETTLES = 4
"""How many times as long, at first: the allocator has to find its way with blocks of other sizes."""
_MOST_RECORDS = 60_000
"""Of all iterations together: reading more takes longer than computing them."""
_MOST_S, _RECORDED_ROUNDS = 8.0, 2
_MOST_S_ELSEWHERE, _RECORDED_ROUNDS_ELSEWHERE = 2.5, 1
"""The same in another batch size."""
_MOST_RECORDED = (2, 1)
"""At a time: two where that can be."""


@dataclass(frozen=True, slots=True)
class _TrialConfig:
    threads: int
    number_format: str = AS_IT_STANDS


@dataclass(frozen=True, slots=True)
class _Plan:
    """How often all configs come up, and how many iterations each time settle in, are timed, and are recorded.

    They are recorded in the first rounds, which tell how a config's time is shared out; how long it is, all tell.
    """

    rounds: int
    settling: int
    timed: int
    recorded: int = 0
    recorded_rounds: int = 0

    @property
    def recordings(self) -> int:
        """Iterations recorded in one config."""
        return min(self.rounds, self.recorded_rounds) * self.recorded

    @property
    def iterations(self) -> int:
        """In one config, all in all."""
        return self.rounds * (self.settling + self.timed) + self.recordings


_PLANS = (
    _Plan(8, 1, 6),
    _Plan(6, 1, 4),
    _Plan(4, 1, 4),
    _Plan(4, 1, 2),
    _Plan(2, 1, 2),
    _Plan(2, 1, 1),
    _Plan(1, 1, 1),
)


def iteration_trials(
    child: ChildProcess,
    trace: Trace,
    environment: Environment,
    settings: TorchSettings | None,
    step_ms: float,
    *,
    anew: Callable[[], ChildProcess],
) -> tuple[IterationTrial, ...]:
    """The script as it stands, and in other configs; empty where that would take too long.

    The child must stand still at an iteration boundary, computes on the CPU, and does so in its own config again
    afterwards. If its script comes to its end it is run ``anew``, once; if that does too, or fails as not everything
    runs under autocast, there are those that were tried by then. Raises what ``anew`` raises.
    """
    plan = _plan(trace, step_ms, _MOST_S, _RECORDED_ROUNDS)
    configs = _configs(trace, environment, settings)
    if plan is None or len(configs) < 2:
        return ()
    found, ended = _tried(child, configs, plan)
    if ended:
        found, _ = _tried(anew(), configs, plan)
    # Without the script as it stands there is nothing to hold others against.
    return tuple(found) if len(found) > 1 else ()


def trials_elsewhere(
    child: ChildProcess, batch_size: int, step_ms: float, trace: Trace, trials: Sequence[IterationTrial]
) -> tuple[IterationTrial, ...]:
    """The same configs in a run at another batch size, more briefly; empty where not all of them come off.

    ``trace`` and ``trials`` are of the script as it stands.
    """
    plan = _plan(trace, step_ms, _MOST_S_ELSEWHERE, _RECORDED_ROUNDS_ELSEWHERE)
    configs = [_TrialConfig(one.threads, one.number_format) for one in trials]
    if plan is None or len(configs) < 2:
        return ()
    found, _ = _tried(child, configs, plan, batch_size)
    return tuple(found) if len(found) == len(configs) else ()


def _tried(
    child: ChildProcess, configs: list[_TrialConfig], plan: _Plan, batch_size: int | None = None
) -> tuple[list[IterationTrial], bool]:
    """What could be tried, and whether the script came to its end before all was."""
    traces: dict[_TrialConfig, list[Trace]] = {}
    rows: dict[_TrialConfig, list[StepRow]] = {}
    config, ended = configs[0], False
    try:
        for number in range(plan.rounds):
            # There and back: what the machine gains or loses meanwhile falls on all of them.
            for config in configs[::-1] if number % 2 else configs:
                _set(child, config)
                is_new = config.number_format and not number
                settling = plan.settling * (_NARROW_SETTLES if is_new else 1)
                rows.setdefault(config, []).extend(run_bare(child, settling + plan.timed)[settling:])
                if number < plan.recorded_rounds:
                    recorded = record_lightly(child, plan.recorded)
                    # A script that ends while it is recorded may have completed no iteration.
                    if recorded.iterations:
                        traces.setdefault(config, []).append(recorded)
        _set(child, configs[0])
    except ScriptEnded:
        ended = len(traces) < len(configs)
    except ScriptFailed:
        # Not everything runs under autocast; what fails without it had come to its end before.
        ended = config.number_format == AS_IT_STANDS and len(traces) < len(configs)
    except BudgetExceeded:
        pass
    tried = [
        iteration_trial(one.threads, one.number_format, of_one, rows[one], batch_size)
        for one, of_one in traces.items()
    ]
    return tried, ended


def _set(child: ChildProcess, config: _TrialConfig) -> None:
    child.send("set", threads=config.threads, number_format=config.number_format)


def _configs(trace: Trace, environment: Environment, settings: TorchSettings | None) -> list[_TrialConfig]:
    threads = environment.intraop_threads
    others = 1 if threads > 1 else environment.cpu_count
    formats = [AS_IT_STANDS]
    autocast = settings is not None and settings.autocast
    if not autocast and _NARROW_FROM in environment.cpu_features and _has_wide_products(trace):
        formats.append(_NARROW_FORMAT)
    return [_TrialConfig(each, kind) for kind in formats for each in dict.fromkeys((threads, others))]


def _has_wide_products(trace: Trace) -> bool:
    return any(shape.operator in PRODUCTS and _WIDE_FORMAT in shape.dtypes for shape in trace.shapes)


def _plan(trace: Trace, step_ms: float, most_s: float, recorded_rounds: int) -> _Plan | None:
    """The one with most iterations that takes no longer than that, with as many recorded as can be read."""
    records = len(trace.records) / max(1, len(trace.iterations))
    for plan in _PLANS:
        for recorded in _MOST_RECORDED:
            full = replace(plan, recorded=recorded, recorded_rounds=recorded_rounds)
            is_short = full.iterations * _ALL_TIMES * step_ms / 1e3 <= most_s
            if is_short and full.recordings * _MANNERS * records <= _MOST_RECORDS:
                return full
    return None
