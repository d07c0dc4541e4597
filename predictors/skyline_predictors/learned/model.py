"""The learned model and its answers: physics, a correction by trees, and an interval."""

from __future__ import annotations

import io
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from skyline.lazy_dataclass import dataclass
from skyline.predict.gpu_spec import GpuSpec
from skyline_predictors.constants import Spread
from skyline_predictors.learned import family as families
from skyline_predictors.learned.family import Family, Physics, Sizes
from skyline_predictors.learned.forest import Forest
from skyline_predictors.learned.machine import LearnedGpu, machine

Floats = NDArray[np.float64]
RECORD_FILE, WEIGHTS_FILE = "learned.json", "learned.npz"
FORMAT = 4
LONGER_US = (50.0, 500.0)
"""Limits in µs between short, longer and long kernels. Predictions of long kernels are more certain."""
_SHARED, _OWN = "shared", "own"


class Trained(msgspec.Struct, frozen=True):
    """Origin of the weights: files with their hashes, rows by GPU, the day, settings, and errors.

    ``seconds`` are of processor time. ``left_out_error`` is, by family and GPU, the mean absolute error on
    the GPU if only the others are used for training: of physics alone, and corrected.
    """

    version: int
    date: str
    files: dict[str, str]
    rows: dict[str, int]
    settings: dict[str, float]
    seconds: float
    left_out_error: dict[str, dict[str, tuple[float, float]]]


class LearnedFigures(msgspec.Struct, frozen=True):
    """All figures other than the trees.

    ``reach`` is, by family, the least and the largest of each size that was learned from, as logarithms to
    base 2. ``generations`` are the measured generations by family. ``trust`` is the share of the shared
    correction that is applied on other generations, if there is such a correction. The intervals of short,
    longer and long kernels, as ``LONGER_US`` divides them, are ``known`` for measured generations and
    ``unknown`` for all others. ``contradicted`` are, by family, the generations with measurements that
    contradict others. ``unsteady`` are the generations of which no measured board sustains its clock: physics
    alone predicts these. ``shortest_us`` is the time of the shortest measured call by operator and
    generation. An empty generation stands for all others.
    """

    physics: Physics
    reach: dict[Family, tuple[list[float], list[float]]]
    generations: dict[Family, list[str]]
    trust: dict[Family, float]
    known: dict[Family, dict[str, list[Spread]]]
    unknown: dict[Family, list[Spread]]
    contradicted: dict[Family, list[str]]
    unsteady: dict[Family, list[str]]
    shortest_us: dict[str, dict[str, float]]
    trained: Trained


@dataclass(frozen=True, slots=True)
class Model:
    """The figures, and the trees of each family. ``own`` trees see the GPU's generation, ``shared`` ones do not."""

    learned: LearnedFigures
    shared: dict[Family, Forest]
    own: dict[Family, Forest]

    def machine(self, family: Family, gpu: GpuSpec) -> LearnedGpu:
        """The GPU as the physics of the family describes it."""
        figures = self.learned.physics
        constants = figures.convolution if family is Family.CONVOLUTION else figures.product
        return machine(gpu, constants.rates)

    def is_known(self, family: Family, gpu: LearnedGpu) -> bool:
        """True if operators of the family were measured on the GPU's generation, at a clock that it sustains."""
        figures = self.learned
        measured = gpu.generation in figures.generations.get(family, [])
        return measured and gpu.generation not in figures.unsteady.get(family, [])

    def kernel_us(self, family: Family, sizes: Sizes, gpu: LearnedGpu) -> tuple[Floats, Floats]:
        """The times of the kernels in µs, not below the hardware's bound, and factors that widen their intervals.

        If measurements contradict one another, half of their departure from physics is applied, and the
        interval extends from physics to the whole departure. Elsewhere the factors are 1.
        """
        physics = families.physics_us(family, sizes, gpu, self.learned.physics)
        correction = self._correction(family, families.features(sizes, gpu, physics), gpu)
        correction = correction * self.within_reach(family, sizes)
        doubted = gpu.generation in self.learned.contradicted.get(family, [])
        wider = np.exp(np.abs(correction)) if doubted else np.ones(len(correction))
        return np.maximum(families.least_us(sizes, gpu), physics * np.exp(correction)), wider

    def _correction(self, family: Family, seen: Floats, gpu: LearnedGpu) -> Floats:
        """Logarithms of the factors that correct physics."""
        if self.is_known(family, gpu):
            told = with_generation(seen, gpu.generation, self.learned.generations[family])
            return self.own[family].predict(told)
        trust = self.learned.trust.get(family, 0.0)
        return trust * self.shared[family].predict(seen) if trust else np.zeros(len(seen))

    def within_reach(self, family: Family, sizes: Sizes) -> Floats:
        """Weight of the correction: 1 within the sizes that were learned from.

        It halves with each doubling beyond them. Trees extrapolate with the value at the largest size that
        they have seen, whereas physics extrapolates properly.
        """
        least, largest = (np.array(one) for one in self.learned.reach[family])
        extents = families.extents(family, sizes)
        beyond = np.maximum(0.0, extents - largest) + np.maximum(0.0, least - extents)
        return np.asarray(0.5 ** beyond.sum(axis=1))

    def spread(self, family: Family, gpu: LearnedGpu, length: int, within: float) -> Spread:
        """Factors on the answer between which nine in ten times of short, longer or long kernels lie.

        ``within`` is the weight of the correction. As it falls, the interval of a measured generation
        approaches that of others.
        """
        unknown = self.learned.unknown[family][length]
        if not self.is_known(family, gpu):
            return unknown
        known = self.learned.known[family][gpu.generation][length]
        return Spread(
            known.low**within * unknown.low ** (1 - within), known.high**within * unknown.high ** (1 - within)
        )

    def shortest_us(self, operator: str, gpu: LearnedGpu | None) -> float:
        """Shortest time of a call as timed from outside, in µs. Most of it is the work of the host."""
        table = self.learned.shortest_us
        of_operator = table.get(operator) or table["aten::add"]
        return of_operator.get(gpu.generation if gpu else "", of_operator[""])


def with_generation(seen: Floats, generation: str, known: Sequence[str]) -> Floats:
    """Features and the generation, for the trees that distinguish GPUs.

    The generation alone identifies a GPU. Another GPU of the same generation is therefore treated as similar,
    whatever its other figures are.
    """
    place = float(known.index(generation))
    return np.concatenate([seen, np.full((len(seen), 1), place)], axis=1)


@cache
def shipped() -> Model:
    """The model that ships with the package."""
    folder = files("skyline_predictors.learned")
    return read(folder.joinpath(RECORD_FILE).read_bytes(), folder.joinpath(WEIGHTS_FILE).read_bytes())


def read(record: bytes, weights: bytes) -> Model:
    """A model from the contents of its two files."""
    learned = msgspec.json.decode(record, type=LearnedFigures)
    with np.load(io.BytesIO(weights), allow_pickle=False) as arrays:
        made: dict[str, dict[Family, Forest]] = {_SHARED: {}, _OWN: {}}
        for kind, forests in made.items():
            for family in learned.trust if kind == _SHARED else learned.generations:
                key = f"{family.value}.{kind}"
                forests[family] = Forest(
                    float(arrays[f"{key}.base"]),
                    arrays[f"{key}.feature"],
                    arrays[f"{key}.threshold"].astype(np.float32),
                    arrays[f"{key}.value"].astype(np.float32),
                )
    return Model(learned, made[_SHARED], made[_OWN])


def written(model: Model) -> tuple[bytes, bytes]:
    """The contents of the two files."""
    arrays: dict[str, Any] = {}
    for kind, forests in ((_SHARED, model.shared), (_OWN, model.own)):
        for family, forest in forests.items():
            key = f"{family.value}.{kind}"
            arrays[f"{key}.base"] = np.array(forest.base)
            arrays[f"{key}.feature"] = forest.feature
            arrays[f"{key}.threshold"] = forest.threshold
            arrays[f"{key}.value"] = forest.value.astype(np.float16)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    record = msgspec.json.format(msgspec.json.encode(model.learned), indent=2) + b"\n"
    return record, buffer.getvalue()
