"""Trials of single matrix products and convolutions of the script: in bfloat16 and on another number of threads.

The gain depends on the processor and the size. These trials are for scripts whose iterations cannot run in another
config.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from math import prod
from operator import sub

import msgspec

from skyline.capture.child_process import ChildProcess
from skyline.capture.events import BareSteps, StepRow
from skyline.capture.trial_budget import TrialBudget
from skyline.capture.turns import Turn, in_turns, trial
from skyline.interval import median
from skyline.lazy_dataclass import dataclass
from skyline.trace.facts import Environment, ModuleFact
from skyline.trace.record import OperatorShape, Phase, RecordKind, Trace
from skyline.trace.trial import PRODUCTS, Choices, ProductTrial, Trial, TriedTimes

_OPTIONS = ("stride", "padding", "dilation", "groups")
_MOST = 16
_ROUNDS = 5
_SECONDS = 1.0
"""No product is started later than this."""
_LONGEST_US = 60e3
"""The longest call that is tried, because each is repeated some forty times."""
_CALLS = 120
"""Total time of all calls of a product, in forward passes: a backward pass takes about two."""
_DISTURBED = 2.0
"""A product that takes this many times longer alone than within the script was disturbed by another program."""
_CALL_US = 30.0
"""Allowance for the call from Python, which is timed here but is not part of a record: it takes 5 to 20 us."""
_MOST_BYTES = 64 << 20
_WIDE = "float32"
NUMBER_FORMAT = "bfloat16"


@dataclass(frozen=True, slots=True)
class _Product:
    shape: OperatorShape
    options: dict[str, object]
    recorded_us: float


def product_trials(
    child: ChildProcess,
    trace: Trace,
    modules: tuple[ModuleFact, ...],
    environment: Environment,
    budget: TrialBudget,
) -> tuple[ProductTrial, ...]:
    """The products of the recorded forward passes that take most of the time.

    The child waits at an iteration boundary, and computes on the CPU.
    """
    products = _products(trace, modules)
    found: dict[int, ProductTrial] = {}
    # Another program may disturb a product, or the time may run out: missing products are tried once more.
    for _ in range(2):
        deadline = time.monotonic() + min(_SECONDS, budget.left_s)
        for number, product in enumerate(products):
            takes_s = _CALLS * product.recorded_us / 1e6
            if number not in found and time.monotonic() < deadline and budget.fits(takes_s):
                tried = _tried(child, product, environment)
                if tried is not None and tried.forward.wide_us <= _DISTURBED * product.recorded_us + _CALL_US:
                    found[number] = tried
    return tuple(found[number] for number in sorted(found))


def _tried(child: ChildProcess, product: _Product, environment: Environment) -> ProductTrial | None:
    """The trial of a product in both formats, in turns, on each number of threads; None if it cannot be called."""
    threads = environment.intraop_threads
    other_threads = 1 if threads > 1 else environment.cpu_count
    trials: list[Trial] = []
    elements = 0
    for count in dict.fromkeys((threads, other_threads)):
        wide, narrow = (
            _ProductTurns(child, product, Choices(threads=count, number_format=each))
            for each in (_WIDE, NUMBER_FORMAT)
        )
        rounds = in_turns(wide, (narrow,), rounds=_ROUNDS)
        trials += [trial(wide.choices, rounds, None), trial(narrow.choices, rounds)]
        elements = wide.elements
    if not all(one.times.steps_ms for one in trials):
        return None
    forward = [1e3 * min(map(sub, one.times.steps_ms, one.times.backward_ms)) for one in trials]
    backward = [1e3 * min(one.times.backward_ms) for one in trials]
    shape = product.shape
    return ProductTrial(
        shape.operator,
        shape.inputs,
        NUMBER_FORMAT,
        TriedTimes(*forward),
        TriedTimes(*backward),
        elements,
        shape.flops,
        threads,
        other_threads,
    )


@dataclass(slots=True)
class _ProductTurns:
    """The turns of one product: a forward and a backward pass in one config."""

    child: ChildProcess
    product: _Product
    choices: Choices
    elements: int = 0

    def turn(self) -> Turn | None:
        shape = self.product.shape
        rows, self.elements = call_product(
            self.child, shape.operator, shape.inputs, self.product.options, self.choices
        )
        return Turn(rows[0].step_ms, rows) if rows else None


def call_product(
    child: ChildProcess,
    operator: str,
    inputs: Sequence[tuple[int, ...]],
    options: Mapping[str, object],
    choices: Choices,
) -> tuple[tuple[StepRow, ...], int]:
    """One forward and one backward pass of a product, and the number of elements of its result.

    No rows if the child cannot call it.
    """
    child.send(
        "try",
        product={"operator": operator, "inputs": inputs, "options": options},
        threads=choices.threads,
        number_format=choices.number_format,
    )
    event = child.receive("steps")
    return msgspec.convert(event, BareSteps).rows, event["elements"]


def _products(trace: Trace, modules: tuple[ModuleFact, ...]) -> list[_Product]:
    by_path = {module.path: module for module in modules}
    times: dict[int, list[float]] = {}
    module_of: dict[int, str] = {}
    for record in trace.records:
        wanted = record.kind is RecordKind.OPERATOR and record.phase is Phase.FORWARD and record.shape >= 0
        if wanted and record.name in PRODUCTS:
            times.setdefault(record.shape, []).append(record.duration_us)
            module_of.setdefault(record.shape, trace.modules[record.module] if record.module >= 0 else "")
    found: list[_Product] = []
    for number in sorted(times, key=lambda shape: -sum(times[shape])):
        shape = trace.shapes[number]
        options = _options(shape, by_path.get(module_of[number]))
        if options is not None and _is_wide(shape) and min(times[number]) <= _LONGEST_US:
            found.append(_Product(shape, options, median(times[number])))
    return found[:_MOST]


def _is_wide(shape: OperatorShape) -> bool:
    return (
        all(name == _WIDE for name in shape.dtypes)
        and all(shape.inputs)
        and 4 * sum(map(prod, shape.inputs)) <= _MOST_BYTES
    )


def _options(shape: OperatorShape, module: ModuleFact | None) -> dict[str, object] | None:
    """The arguments of a convolution other than its tensors; None if no layer shows them."""
    if not shape.operator.startswith("aten::conv"):
        return {}
    known = module is not None and module.library and module.options.get("padding_mode") == "zeros"
    if module is None or not known or module.class_name not in ("Conv1d", "Conv2d", "Conv3d"):
        return None
    return {name: module.options[name] for name in _OPTIONS if name in module.options}
