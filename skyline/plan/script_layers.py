"""A profiled or shape-traced script as layers: its repeated module is the block, the rest are the first and last part.

If its modules differ, they also form a chain that a pipeline can be cut from.
"""

from __future__ import annotations

import re
from collections import Counter
from math import ceil

from skyline.errors import UsageError
from skyline.lazy_dataclass import dataclass
from skyline.plan.layers import KnownPass, LayerPart, Layers
from skyline.plan.script_chain import chain_of, input_bytes
from skyline.plan.strategy import Strategy
from skyline.plan.waiting import decodes_images
from skyline.trace.profile import Profile
from skyline.trace.record import OperatorShape, Phase, RecordKind

_NUMBERED = re.compile(r"^(.*?\.)(\d+)(\..*)?$")


@dataclass(frozen=True, slots=True)
class TracedProgram:
    """One forward and backward pass of a script with its own batch, which is the micro-batch of each rank.

    ``passes`` is the number of such passes in a step of the script (gradient accumulation).
    """

    name: str
    batch: int
    whole: Layers
    flops: float
    passes: int = 1
    unit: str = "samples"
    units_per_sample: float = 1.0

    @property
    def flops_per_sample(self) -> float:
        """Arithmetic of a pass for one sample of its batch."""
        return self.flops / self.batch

    @property
    def block_count(self) -> int:
        """The number of repeated blocks, or of different layers."""
        return len(self.whole.chain) or self.whole.blocks

    def refusal(self, strategy: Strategy) -> str:
        """The reason why a strategy is impossible: a trace does not describe splits of operators inside a block."""
        if strategy.tensor * strategy.context * strategy.expert > 1:
            return "tensor, context and expert parallelism need a described transformer (--model)"
        if strategy.chunks > 1 and self.whole.chain:
            return "interleaved stages need equal blocks"
        if strategy.micro_batch != self.batch:
            return f"the script was traced at a batch of {self.batch}"
        return ""

    def layers(self, strategy: Strategy) -> Layers:
        """The traced layers."""
        return self.whole


def traced_program(profile: Profile) -> TracedProgram:
    """The layers of a profile whose records have shapes, as in a shape trace.

    Raises:
        UsageError: the profile has no operators with shapes, or no batch size.
    """
    trace = profile.trace
    if profile.batch_size is None:
        raise UsageError(
            "the batch size of the script is not known", hint="Plan with --model instead of the script."
        )
    first = min((mark.index for mark in trace.iterations), default=0)
    own = [one for one in trace.records if one.iteration == first]
    records = [one for one in own if one.kind is RecordKind.KERNEL]
    # In a traced script, all kernels have shapes. In a recorded one, products and all operators have them.
    if not records or any(one.shape < 0 for one in records):
        records = [one for one in own if one.kind is RecordKind.OPERATOR]
    shapes = [
        (one, trace.shapes[one.shape])
        for one in records
        if one.shape >= 0 and one.phase in (Phase.FORWARD, Phase.BACKWARD)
    ]
    if not shapes:
        raise UsageError(
            "the profile has no operators with shapes",
            hint="Trace the script with: skyline profile --gpu NAME SCRIPT",
        )
    prefix, count = repeated_modules([path.path for path in profile.modules])
    inside: dict[Phase, list[OperatorShape]] = {Phase.FORWARD: [], Phase.BACKWARD: []}
    outside: dict[Phase, list[OperatorShape]] = {Phase.FORWARD: [], Phase.BACKWARD: []}
    ordered: dict[Phase, list[tuple[str, OperatorShape]]] = {Phase.FORWARD: [], Phase.BACKWARD: []}
    members: dict[int, list[OperatorShape]] = {}
    for record, shape in shapes:
        module = trace.modules[record.module] if 0 <= record.module < len(trace.modules) else ""
        number = _number(module, prefix)
        ordered[record.phase].append((module, shape))
        if number is not None and record.phase is Phase.FORWARD:
            members.setdefault(number, []).append(shape)
        if number == 0:
            inside[record.phase].append(shape)
        elif number is None:
            outside[record.phase].append(shape)
    passes, batch = _passes(profile)
    repeats = _repeats(list(members.values()), outside[Phase.FORWARD])
    for found in (*inside.values(), *outside.values(), *ordered.values()):
        # All passes compute the same, so the first one represents all.
        del found[ceil(len(found) / passes) :]
    parameters = {True: 0.0, False: 0.0}
    for module in profile.modules:
        parameters[_number(module.path, prefix) is not None] += module.parameter_count
    kept = [one.kept_bytes or 0 for one in profile.modules if one.path == f"{prefix}0"]
    all_kept = max((one.kept_bytes or 0 for one in profile.modules), default=0)
    saved = float(kept[0]) if kept else 0.0
    forward = tuple(inside[Phase.FORWARD])
    block = LayerPart(
        forward,
        tuple(inside[Phase.BACKWARD]),
        forward,
        parameters[True] / max(1, count),
        saved,
        saved / 2,
        float(input_bytes(forward)),
    )
    rest = LayerPart(
        tuple(outside[Phase.FORWARD]),
        tuple(outside[Phase.BACKWARD]),
        (),
        parameters[False],
        max(0.0, all_kept - saved * count),
        max(0.0, all_kept - saved * count),
    )
    if not count:
        # Nothing repeats, so the whole step is one block.
        block, rest, count = (
            LayerPart(rest.forward, rest.backward, rest.forward, rest.parameters, all_kept, all_kept / 2),
            LayerPart(),
            1,
        )
    chain = () if repeats else chain_of(profile.modules, ordered[Phase.FORWARD], ordered[Phase.BACKWARD])
    flops = float(sum(shape.flops for _, shape in shapes)) / passes
    name = profile.script.rpartition("/")[2] or profile.script
    known = _known(profile, passes)
    images = any(decodes_images(source.text) for source in profile.sources)
    whole = Layers(
        block, count, LayerPart(), rest, single_device=True, host_images=images, known=known, chain=chain
    )
    return TracedProgram(name, batch, whole, flops, passes)


def _repeats(members: list[list[OperatorShape]], outside: list[OperatorShape]) -> bool:
    """True if the repeated modules are equal and have at least as much arithmetic as everything outside them."""
    if len(members) < 2 or any(one != members[0] for one in members):
        return False
    repeated = len(members) * sum(shape.flops for shape in members[0])
    return repeated >= sum(shape.flops for shape in outside)


def _passes(profile: Profile) -> tuple[int, int]:
    """The number of forward and backward passes of a step that accumulates gradients, and the samples of each pass."""
    assert profile.batch_size is not None
    passes, samples = max(1, profile.batch.micro_batches), profile.batch.samples_per_iteration
    if passes > 1 and samples and not samples % passes:
        return passes, samples // passes
    return 1, profile.batch_size


def _known(profile: Profile, passes: int) -> KnownPass | None:
    """The predicted forward and backward pass. None for a measured profile."""
    if profile.prediction is None:
        return None
    phases = [*profile.times.optimizer_ms, 0.0]
    pass_us = max(0.0, profile.prediction.iteration_ms.value - phases[0]) * 1e3
    first = min((mark.index for mark in profile.trace.iterations), default=0)
    kernels_us = sum(
        one.duration_us
        for one in profile.trace.records
        if one.iteration == first
        and one.kind is RecordKind.KERNEL
        and one.phase in (Phase.FORWARD, Phase.BACKWARD)
    )
    return KnownPass(profile.prediction.gpu, pass_us / passes, kernels_us / passes) if kernels_us else None


def repeated_modules(paths: list[str]) -> tuple[str, int]:
    """The prefix with the most numbered modules, such as ``GPT.h.``, and their number."""
    numbers: dict[str, set[int]] = {}
    depth: Counter[str] = Counter()
    for path in paths:
        found = _NUMBERED.match(path)
        if found and not found[3]:
            numbers.setdefault(found[1], set()).add(int(found[2]))
        elif found:
            depth[found[1]] += 1
    # A list of blocks has modules inside its members. A plain list of layers may have none.
    usable = {prefix: len(found) for prefix, found in numbers.items() if len(found) > 1}
    if not usable:
        return "", 0
    best = max(usable, key=lambda prefix: (depth[prefix] > 0, usable[prefix]))
    return best, usable[best]


def _number(path: str, prefix: str) -> int | None:
    if not prefix or not path.startswith(prefix):
        return None
    digits = path[len(prefix) :].partition(".")[0]
    return int(digits) if digits.isdigit() else None
