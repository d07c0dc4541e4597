"""What if the layers of the model had fewer channels: structured pruning."""

from __future__ import annotations

from functools import cached_property
from math import sqrt

import numpy as np

from skyline.graph.column import Flags, Indices
from skyline.graph.graph import Graph, scale
from skyline.graph.selection import select
from skyline.graph.task import WORK, TaskKind, WorkClass
from skyline.interval import ENDS, Interval
from skyline.lazy_dataclass import dataclass
from skyline.predict.operator_time import TileUse
from skyline.predict.predicted_times import in_allowed_format
from skyline.predict.tile_shares import product_uses, tile_shares
from skyline.trace.record import PASSES, OperatorShape, Phase
from skyline.units import format_ms, format_share
from skyline.whatif.base import Applicability, Scenario, Semantics, Subject, UsualWhatIf
from skyline.whatif.catalogue.models.alignment import EFFICIENT_FROM, Odd, element_bytes, padded
from skyline.whatif.catalogue.models.pruned_sizes import (
    NAME,
    Cut,
    Pruned,
    PrunedLayer,
    numbers,
    pruned,
    why_not,
)
from skyline.whatif.constant import Constant
from skyline.whatif.cost.thread_scaling import CALL_US
from skyline.whatif.memory import Memory
from skyline.whatif.number_formats import Factors, gpu
from skyline.whatif.predicted_kernels import PredictedKernels
from skyline.whatif.subject import shapes

_VALUES = ("0.1", "0.3", "0.5")
_DEFAULT = "0.3"
_STEPS = tuple(step / 5 for step in range(6))
"""Shares of the ratio in the equal stretches of the assumed schedule."""
_MOST_CALL = Constant.at(
    0.5, "an assumption: at least half of a short operator's time is work on its numbers"
)
_TILE = 64
"""The multiple proposed to fill tiles: the side of the smaller square tiles of the libraries."""
CAVEAT = (
    "test accuracy alone does not show the cost of pruning: measure out-of-distribution data, noise and calibration "
    "too (Liebenwein and others, Lost in Pruning, 2021)"
)

_Call = tuple[OperatorShape | None, str, bool]
"""The operator call of a task, the path of its module, and whether it is a product."""


@dataclass(frozen=True, slots=True)
class Prune(UsualWhatIf):
    """Cuts channels of every layer but the last; products, norms, activations and the update shrink with them."""

    name: str = NAME
    semantics: Semantics = Semantics.MODEL
    # It would pad the sizes from before pruning.
    excludes: tuple[str, ...] = ("pad_to_multiple",)

    def title(self, value: str) -> str:
        """The change in a few words."""
        cut = Cut.parse(value or _DEFAULT)
        multiples = f", to multiples of {cut.multiple}" if cut.multiple > 1 else ""
        share = f"{100 * cut.ratio:g} % of the" if value else "some"
        return f"prune {share} channels of each layer but the last{multiples}"

    def detect(self, subject: Subject) -> Applicability:
        """Applicable to one network of convolutions and linear layers whose sizes can be followed."""
        profile = subject.script
        if subject.on_gpu and gpu(subject) is None:
            return Applicability.no("the GPU is not known: see skyline gpus")
        reason = why_not(profile)
        return Applicability.no(reason) if reason else Applicability(True, values=_VALUES, default=_DEFAULT)

    def transform(self, scenario: Scenario, value: str, subject: Subject) -> Scenario:
        """Scale each task to its sizes after pruning."""
        profile, cut = subject.script, Cut.parse(value)
        model = pruned(profile, cut)
        work = _Work(subject, scenario.graph)
        likely, least, most = work.ends(model)
        share = model.parameter_share(profile.modules)
        activations = work.activations(model)

        def smaller(memory: Memory) -> Memory:
            kept = Interval(activations, min(activations, 1 - cut.ratio), (1 + activations) / 2)
            return memory.with_weights(share).with_activations(kept)

        return scenario.between(
            subject,
            likely,
            least,
            most,
            assumptions=(
                (
                    f"of the parameters {format_share(share)} and of the products' arithmetic "
                    f"{format_share(work.arithmetic(model))} are left; outputs of {model.last} stay"
                ),
                *work.utilisation(model, cut),
                self._gradually(subject, scenario.graph, work, cut, likely),
                CAVEAT,
            ),
            memory=smaller,
        )

    def _gradually(self, subject: Subject, graph: Graph, work: _Work, cut: Cut, likely: Graph) -> str:
        """The mean iteration over a gradual schedule in words, from the times at its ratios."""
        between = [work.ends(pruned(subject.script, cut.part(step)))[0] for step in _STEPS[1:-1]]
        times = [subject.step_ms(each) for each in (graph, *between, likely)]
        mean_ms = sum(times) / len(times)
        return (
            f"in a gradual schedule, from nothing to all in {len(_STEPS)} equal stretches of the training, the mean "
            f"iteration takes {format_ms(mean_ms)}, {format_share(mean_ms / times[0])} of now"
        )


@dataclass(frozen=True, eq=False)
class _Work:
    """The tasks of a graph whose times depend on the sizes of layers, with their calls."""

    subject: Subject
    graph: Graph

    @cached_property
    def tasks(self) -> Indices:
        """The operators of both passes on a CPU, or the kernels on a GPU."""
        return select(self.graph, kind=self._kind, phase=PASSES)

    @property
    def _kind(self) -> TaskKind:
        return TaskKind.KERNEL if self.subject.on_gpu else TaskKind.CPU

    @cached_property
    def calls(self) -> list[_Call]:
        """The call of each task."""
        tasks, modules = self.graph.tasks, self.graph.structure.modules
        works = (WORK[WorkClass.MATMUL], WORK[WorkClass.CONVOLUTION])
        is_product: Flags = np.isin(tasks.work[self.tasks], works)
        numbered: list[int] = tasks.module[self.tasks].tolist()
        paths = [modules[one] if one >= 0 else "" for one in numbered]
        return list(
            zip(shapes(self.subject, self.graph, self.tasks), paths, is_product.tolist(), strict=True)
        )

    @cached_property
    def kernels(self) -> PredictedKernels | None:
        """The predictor of the GPU's kernels; None on a CPU."""
        spec = gpu(self.subject)
        predicted = PredictedKernels.of(self.subject, self.graph)
        if predicted is None and spec is not None:
            return PredictedKernels.on(self.subject, self.graph, spec)
        return predicted

    @cached_property
    def width(self) -> int:
        """The float32 numbers in a vector of the CPU: 512, 256 or else 128 bits."""
        features = self.subject.cpu_features or ()
        return 16 if "avx512f" in features else 8 if "avx2" in features else 4

    def ends(self, model: Pruned) -> tuple[Graph, Graph, Graph]:
        """The graph after pruning: likely, at best and at worst."""
        kernels = self.kernels
        if kernels is None:
            passes = self._on_processor(model).applied(self.graph, self.tasks)
        else:
            passes = self._on_gpu(kernels, model).applied(self.graph, kernels.kernels)
        update = select(self.graph, kind=self._kind, phase=Phase.OPTIMIZER)
        left = model.parameter_share(self.subject.script.modules)
        moved = 1.0 if self.subject.on_gpu else self.subject.step.traffic_share
        likely, least, most = (
            scale(one, update, 1 - part * (1 - left))
            for one, part in zip(passes, (moved, 1.0, 0.5 * moved), strict=True)
        )
        return likely, least, most

    def _on_processor(self, model: Pruned) -> Factors:
        """The factors on a CPU, by arithmetic in whole vectors and by traffic; the call of an operator stays."""
        known = {call: self._share(call, model) for call in set(self.calls)}
        times = np.maximum(self.graph.durations[self.tasks], 1e-9)
        standing = np.minimum(CALL_US, _MOST_CALL.value * times) / times
        shares = np.array([known[call].ends for call in self.calls], np.float64).reshape(-1, 3).T
        return Factors(*(standing + (1 - standing) * each for each in shares))

    def _share(self, call: _Call, model: Pruned) -> Interval:
        """The ratio of the time of a call's work after pruning to its present time."""
        shape, path, is_product = call
        layer = model.layers.get(path)
        moved = 1.0
        if shape is not None:
            moved = numbers(model.shape(shape, layer)) / (numbers(shape) or 1)
        if layer is None or not is_product:
            return Interval(moved, moved, sqrt(moved))
        filled, plain = layer.arithmetic(self.width), layer.arithmetic()
        return Interval(filled, min(filled, plain), max(filled, moved, sqrt(plain)))

    def _on_gpu(self, kernels: PredictedKernels, model: Pruned) -> Factors:
        """The factors by the predictor at both sizes, with tiles and waves; more for sizes that lose alignment."""
        size = element_bytes(self.subject.script)
        changing = np.isin(kernels.kernels, self.tasks)
        longer: list[Interval] = []
        for path, is_product in self._kernel_layers(kernels):
            layer = model.layers.get(path)
            odd = layer is not None and is_product and size
            longer.append(_longer(layer, size) if layer is not None and odd else Interval.exact(1.0))
        factors = kernels.factors(kernels.shapes, self._shapes_after(kernels, model))
        cases = (
            np.where(changing, found * np.array([getattr(one, end) for one in longer], np.float64), 1.0)
            for found, end in zip(factors, ENDS, strict=True)
        )
        return Factors(*cases)

    def _kernel_layers(self, kernels: PredictedKernels) -> list[tuple[str, bool]]:
        """The path of each kernel's module, empty if sizes do not affect it, and whether it is a product."""
        called = dict(zip(self.tasks.tolist(), self.calls, strict=True))
        found = (called.get(task) for task in kernels.kernels.tolist())
        return [("", False) if one is None else one[1:] for one in found]

    def _shapes_after(self, kernels: PredictedKernels, model: Pruned) -> list[OperatorShape]:
        """The shape of each kernel after pruning."""
        changing = np.isin(kernels.kernels, self.tasks).tolist()
        layers = self._kernel_layers(kernels)
        return [
            model.shape(shape, model.layers.get(path)) if changes else shape
            for shape, (path, _), changes in zip(kernels.shapes, layers, changing, strict=True)
        ]

    def _tiles(self, kernels: PredictedKernels, model: Pruned | None = None) -> TileUse | None:
        """The tiles and waves of the layers' products, now or after pruning, weighted by their arithmetic."""
        sized = kernels.shapes if model is None else self._shapes_after(kernels, model)
        layers = self._kernel_layers(kernels)
        weighed = [
            (float(shape.flops), in_allowed_format(shape, kernels.profile, kernels.spec))
            for shape, (_, is_product) in zip(sized, layers, strict=True)
            if is_product and shape.flops
        ]
        return tile_shares(product_uses(weighed, kernels.spec))

    def arithmetic(self, model: Pruned) -> float:
        """The ratio of the arithmetic of the layers' products after pruning to the present one."""
        now, then = self._computed(model, 1)
        return then / now if now else 1.0

    def _computed(self, model: Pruned, width: int) -> tuple[float, float]:
        """The arithmetic of the products now and after pruning, with vectors padded to ``width`` channels."""
        now = then = 0.0
        for shape, path, is_product in self.calls:
            layer = model.layers.get(path)
            if shape is None or layer is None or not is_product or not shape.flops:
                continue
            plain, _ = layer.computed()
            before, after = layer.computed(width)
            now += shape.flops * before / plain
            then += shape.flops * after / plain
        return now, then

    def activations(self, model: Pruned) -> float:
        """The ratio of the input numbers of forward operators, without products, after pruning to those now."""
        forward = select(self.graph, kind=self._kind, phase=Phase.FORWARD)
        found = [
            (numbers(shape), numbers(model.shape(shape, model.layers.get(path))))
            for (shape, path, is_product), is_forward in zip(
                self.calls, np.isin(self.tasks, forward).tolist(), strict=True
            )
            if shape is not None and is_forward and not is_product
        ]
        now = sum(before for before, _ in found)
        return sum(after for _, after in found) / now if now else 1.0

    def utilisation(self, model: Pruned, cut: Cut) -> tuple[str, ...]:
        """The utilization of vectors and tiles by the remaining sizes in words, with a remedy for odd sizes."""
        kernels = self.kernels
        on_processor = kernels is None
        wanted = self.width if on_processor else EFFICIENT_FROM.get(element_bytes(self.subject.script), 0)
        layers = tuple(model.layers.values())
        odd = [one for one in layers if wanted and one.kept_outputs % wanted and not one.outputs % wanted]
        plain = all(one.plain for one in layers)
        tiles = () if kernels is None else self._tile_words(kernels, model, cut, plain=plain)
        if not odd:
            return tiles
        rounded = Cut(cut.ratio, wanted)
        cure = f": {NAME}={rounded} keeps multiples" if plain else ""
        said = f"{len(odd)} of {len(layers)} layers get output sizes not divisible by {wanted}, such as "
        if not on_processor:
            return (f"{said}{odd[0].kept_outputs} (SKY303){cure}", *tiles)
        (now, then), (now_filled, then_filled) = (self._computed(model, one) for one in (1, wanted))
        filled = [
            format_share(one / all_of) for one, all_of in ((now, now_filled), (then, then_filled)) if all_of
        ]
        if len(filled) == 2 and filled[0] == filled[1]:
            # Other layer sizes determine how full vectors are, before and after pruning.
            return ()
        units = f", so that products fill {filled[1]} of vectors, now {filled[0]}" if filled else ""
        return (f"{said}{odd[0].kept_outputs}{units}{cure}",)

    def _tile_words(
        self, kernels: PredictedKernels, model: Pruned, cut: Cut, *, plain: bool
    ) -> tuple[str, ...]:
        """Tiles and waves before and after in words, and after rounding to whole tiles; empty if unknown."""
        now, then = self._tiles(kernels), self._tiles(kernels, model)
        if now is None or then is None:
            return ()
        words = (
            f"products fill {format_share(then.filled)} of their tiles, now {format_share(now.filled)}; in their waves "
            f"{format_share(then.busy)} of the multiprocessors' time has a tile, now {format_share(now.busy)}"
        )
        rounded = Cut(cut.ratio, _TILE)
        if not plain or cut.multiple % _TILE == 0 or then.filled * then.busy >= now.filled * now.busy:
            return (words,)
        cured = self._tiles(kernels, pruned(self.subject.script, rounded))
        if cured is None or cured.filled * cured.busy <= then.filled * then.busy:
            return (words,)
        return (
            f"{words}; {NAME}={rounded} keeps {format_share(cured.filled)} and {format_share(cured.busy)}",
        )


def _longer(layer: PrunedLayer, size: int) -> Interval:
    """The ratio of a product's time with odd sizes after pruning to that with aligned ones, as predictors assume."""
    wanted = EFFICIENT_FROM[size]
    was_aligned = layer.outputs % wanted == 0 and layer.inputs % wanted == 0
    if not was_aligned or (layer.kept_outputs % wanted == 0 and layer.kept_inputs % wanted == 0):
        return Interval.exact(1.0)
    aligned = padded(layer.kept_outputs, wanted), padded(layer.kept_inputs, wanted)
    gain = Odd(layer.module, layer.kept_outputs, layer.kept_inputs, *aligned).factor(size)
    return Interval(1 / gain.value, 1 / gain.high, 1 / gain.low)


WHATIF = Prune()
