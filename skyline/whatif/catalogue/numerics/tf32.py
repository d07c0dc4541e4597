"""What if matrix products in float32 were computed in TF32."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from skyline.graph.column import Indices
from skyline.graph.graph import Graph, scale
from skyline.graph.selection import Criteria, select
from skyline.graph.task import TaskKind, WorkClass
from skyline.lazy_dataclass import dataclass
from skyline.whatif.base import (
    Applicability,
    Provenance,
    Scenario,
    Semantics,
    Stage,
    Subject,
    UsualWhatIf,
)
from skyline.whatif.number_formats import (
    FIRST_WITH_TF32,
    FLOAT32,
    NARROW,
    TF32,
    capability,
    factors,
    formats,
    gpu,
)
from skyline.whatif.subject import shapes

_PRODUCTS = Criteria(work=WorkClass.MATMUL, kind=TaskKind.KERNEL)
_NARROWED = "products run in 16 bits by another change: TF32 adds nothing to that"
_EARLIER = "no matrix product is computed in plain float32"


@dataclass(frozen=True, slots=True)
class Tf32(UsualWhatIf):
    """Scales the kernels of float32 products; convolutions use TF32 by default already."""

    name: str = "tf32"
    words: str = "TF32 for float32 matrix products (set_float32_matmul_precision)"
    semantics: Semantics = Semantics.NUMERICS
    stage: Stage = Stage.PRECISION

    def detect(self, subject: Subject) -> Applicability:
        """Applicable to float32 products on a GPU whose matrix units support TF32."""
        reason = _lacking(subject)
        if reason:
            return Applicability.no(reason)
        settings = None if subject.profile is None else subject.profile.settings
        if settings is not None and settings.matmul_precision in ("high", "medium"):
            return Applicability.no("float32 matrix products may use TF32 already")
        graph = subject.graph_of(self.grain)
        chosen = select(graph, _PRODUCTS)
        if not len(chosen):
            return Applicability.no("no matrix product ran on the GPU")
        present = formats(subject, graph, chosen)
        if FLOAT32 not in present:
            already = "in TF32 already" if TF32 in present else "in other formats than float32"
            return Applicability.no(f"{_EARLIER}: they are {already}")
        return Applicability(True)

    def transform(self, scenario: Scenario, value: str, subject: Subject) -> Scenario:
        """Scale the products that are in float32; their launches stay as they are."""
        if scenario.product_format in NARROW:
            return replace(scenario, assumptions=(*scenario.assumptions, _NARROWED))
        graph = scenario.graph
        chosen = _plain(subject, graph)
        cases = (scale(graph, chosen, factor) for factor in factors(subject, graph, chosen, TF32))
        assumed = ("products gain as much as the predictor states for their sizes",)
        sized = gpu(subject) is not None and any(
            shape is not None for shape in shapes(subject, graph, chosen)
        )
        if not sized:
            assumed = ("a range for products of unknown size: small ones gain nothing",)
        provenance = Provenance.MODELLED if sized else Provenance.ASSUMED
        return scenario.between(subject, *cases, assumptions=assumed, provenance=provenance)


def _plain(subject: Subject, graph: Graph) -> Indices:
    chosen = select(graph, _PRODUCTS)
    return chosen[np.array([one == FLOAT32 for one in formats(subject, graph, chosen)], np.bool_)]


def _lacking(subject: Subject) -> str:
    """The reason why the hardware cannot do it; empty if it can, or may."""
    if not subject.on_gpu:
        return "TF32 is a format of NVIDIA GPUs, and nothing ran on one"
    spec, version = gpu(subject), capability(subject)
    if (0, 0) < version < FIRST_WITH_TF32:
        return "this GPU has no TF32: it came with compute capability 8.0"
    if spec is not None and (spec.vendor != "NVIDIA" or not spec.tflops_tf32):
        return f"the {spec.name} has no TF32"
    if version == (0, 0) and spec is None:
        return "the GPU is not known, so that its support of TF32 is not known"
    return ""


WHATIF = Tf32()
