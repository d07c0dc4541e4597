"""Times single products of the script in bfloat16 and on another number of threads.

Their gain differs by processor and by size. This serves scripts whose iterations cannot run in another config.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

import msgspec

from skyline.capture.child_process import ChildProcess
from skyline.spread import median
from skyline.trace.facts import Environment, ModuleFact
from skyline.trace.phase import Phase
from skyline.trace.product_trial import PRODUCTS, ProductTrial, TriedTimes
from skyline.trace.record import RecordKind, Trace
from skyline.trace.shape import OperatorShape

_OPTIONS = ("stride", "padding", "dilation", "groups")
_MOST = 16
_SECONDS = 1.0
_LONGEST_US = 60e3
"""The longest call that is tried, because each is repeated some forty times."""
_DISTURBED = 2.0
"""A product that takes this many times longer by itself than within the script was disturbed by another program."""
_MOST_BYTES = 64 << 20
_WIDE = "float32"
NUMBER_FORMAT = "bfloat16"


@dataclass(frozen=True, slots=True)
class ProductTime:
    """The child's result for the product with this number."""

    number: int
    forward: TriedTimes
    backward: TriedTimes
    elements: int


@dataclass(frozen=True, slots=True)
class _Asked:
    shape: OperatorShape
    options: dict[str, object]
    recorded_us: float


def product_trials(
    child: ChildProcess, trace: Trace, modules: tuple[ModuleFact, ...], environment: Environment
) -> tuple[ProductTrial, ...]:
    """The products of the recorded forward passes that take most of the time.

    The child stands still at an iteration boundary, and computes on the CPU.
    """
    asked = _asked(trace, modules)
    if not asked:
        return ()
    rows: list[dict[str, object]] = [
        {"operator": one.shape.operator, "inputs": one.shape.inputs, "options": one.options} for one in asked
    ]
    threads = environment.intraop_threads
    other_threads = 1 if threads > 1 else environment.cpu_count
    tried = _calm(asked, _tried(child, rows, other_threads))
    if len(tried) < len(asked):
        # Another program took the processor, or time ran out: try the missing ones once more.
        again = [number for number in range(len(asked)) if number not in tried]
        found = _tried(child, [rows[number] for number in again], other_threads)
        tried |= _calm(asked, [replace(one, number=again[one.number]) for one in found])
    return tuple(
        ProductTrial(
            one.shape.operator,
            one.shape.inputs,
            NUMBER_FORMAT,
            tried[number].forward,
            tried[number].backward,
            tried[number].elements,
            one.shape.flops,
            threads,
            other_threads,
        )
        for number, one in enumerate(asked)
        if number in tried
    )


def _tried(child: ChildProcess, rows: list[dict[str, object]], other_threads: int) -> list[ProductTime]:
    child.send(
        "try", operators=rows, number_format=NUMBER_FORMAT, other_threads=other_threads, seconds=_SECONDS
    )
    return msgspec.convert(child.receive("tried")["rows"], list[ProductTime])


def _calm(asked: list[_Asked], tried: list[ProductTime]) -> dict[int, ProductTime]:
    """By number, the products that were not disturbed: in float32 they took about as long as within the script."""
    return {
        one.number: one for one in tried if one.forward.wide_us <= _DISTURBED * asked[one.number].recorded_us
    }


def _asked(trace: Trace, modules: tuple[ModuleFact, ...]) -> list[_Asked]:
    by_path = {module.path: module for module in modules}
    times: dict[int, list[float]] = {}
    module_of: dict[int, str] = {}
    for record in trace.records:
        wanted = record.kind is RecordKind.OPERATOR and record.phase is Phase.FORWARD and record.shape >= 0
        if wanted and record.name in PRODUCTS:
            times.setdefault(record.shape, []).append(record.duration_us)
            module_of.setdefault(record.shape, trace.modules[record.module] if record.module >= 0 else "")
    found: list[_Asked] = []
    for number in sorted(times, key=lambda shape: -sum(times[shape])):
        shape = trace.shapes[number]
        options = _options(shape, by_path.get(module_of[number]))
        if options is not None and _is_wide(shape) and min(times[number]) <= _LONGEST_US:
            found.append(_Asked(shape, options, median(times[number])))
    return found[:_MOST]


def _is_wide(shape: OperatorShape) -> bool:
    return (
        all(name == _WIDE for name in shape.dtypes)
        and all(shape.inputs)
        and 4 * sum(map(prod, shape.inputs)) <= _MOST_BYTES
    )


def _options(shape: OperatorShape, module: ModuleFact | None) -> dict[str, object] | None:
    """The arguments of a convolution beside its tensors; None where no layer shows them."""
    if not shape.operator.startswith("aten::conv"):
        return {}
    known = module is not None and module.library and module.options.get("padding_mode") == "zeros"
    if module is None or not known or module.class_name not in ("Conv1d", "Conv2d", "Conv3d"):
        return None
    return {name: module.options[name] for name in _OPTIONS if name in module.options}
