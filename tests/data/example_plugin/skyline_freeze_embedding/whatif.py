"""What the change does to the graph and to the memory."""

from __future__ import annotations

from dataclasses import dataclass

from skyline.graph import scale, select
from skyline.interval import Interval
from skyline.trace.facts import ModuleFact
from skyline.trace.record import Phase
from skyline.whatif.base import Applicability, Grain, Scenario, Semantics, Stage, Subject
from skyline.whatif.subject import NEEDS_PROFILE

GRADIENT_OPERATORS = ("EmbeddingBackward", "EmbeddingBagBackward")


@dataclass(frozen=True)
class FreezeEmbedding:
    """Takes the gradients of embeddings away, and their share of the optimizer step."""

    name: str = "freeze_embedding"
    semantics: Semantics = Semantics.CONVERGENCE
    stage: Stage = Stage.OPTIMIZER
    grain: Grain = Grain.OPERATORS
    excludes: tuple[str, ...] = ("sparse_embedding",)

    def title(self, value: str) -> str:
        return "train without the embeddings"

    def detect(self, subject: Subject) -> Applicability:
        if subject.profile is None:
            return Applicability.no(NEEDS_PROFILE)
        if not trained_embeddings(subject.profile.modules):
            return Applicability.no("no embedding is trained")
        if not subject.profile.optimizers:
            return Applicability.no("no PyTorch optimizer takes the step")
        return Applicability(True)

    def transform(self, scenario: Scenario, value: str, subject: Subject) -> Scenario:
        assert subject.profile is not None  # detect has seen to that
        frozen = sum(one.parameter_count for one in trained_embeddings(subject.profile.modules))
        trained = sum(one.parameter_count for one in subject.profile.optimizers)
        share = min(1.0, frozen / trained) if trained else 0.0
        graph = scenario.graph
        gradients = select(graph, phase=Phase.BACKWARD, name=GRADIENT_OPERATORS)
        updates = select(graph, phase=Phase.OPTIMIZER)
        without = scale(graph, gradients, 0.0, gaps=True)
        likely = scale(without, updates, 1 - share, gaps=True)
        # At worst the optimizer's time is all calls, of which few go.
        most = scale(without, updates, 1 - share / 2, gaps=True)
        saved = Interval.exact(4.0 * frozen)
        return scenario.between(
            subject,
            likely,
            likely,
            most,
            assumptions=("the step takes as long for each parameter", "parameters are float32"),
            memory=lambda memory: memory.less("gradients", saved),
        )


def trained_embeddings(modules: tuple[ModuleFact, ...]) -> list[ModuleFact]:
    """The embeddings of PyTorch that take gradients."""
    return [one for one in modules if one.library and one.trainable and one.class_name.startswith("Embedding")]


WHATIF = FreezeEmbedding()
