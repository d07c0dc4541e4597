"""The preset ``academic-bert``: BERT-large on the cluster of a university group.

Izsak, Berchansky and Levy (How to Train BERT with an Academic Budget, 2021) train 24 hours on one server. The
batch and the sequences are those of the command in their code's documentation. Lin, Li and Pekhimenko
(Multi-node BERT-pretraining: Cost-efficient Approach, 2020) train on a cluster of widely available GPUs with
fused kernels, accumulation and mixed precision.
"""

from __future__ import annotations

from dataclasses import replace

import msgspec

from skyline.plan.preset import Job, Measure, Preset, Published
from skyline.plan.strategy import Precision
from skyline.plan.transformer import Transformer, transformer_named
from skyline.whatif.base import Semantics

_MASKED = 20 / 128
"""Predicted tokens of a sequence: the maximum that the code of Izsak et al. prepares for 128 tokens."""
_STEPS, _BATCH = 1_000_000, 256
_SHORT_SHARE, _SHORT, _LONG = 0.9, 128, 512
"""BERT's own training (Devlin et al. 2019): nine tenths of the steps have short sequences, the others long ones."""
_STOP_EVERY = 1000 * _BATCH
"""Sequences between two checkpoints: 1,000 steps, the default of BERT's own run_pretraining.py."""


def academic_bert() -> Preset:
    """The preset, with BERT-large as described in ``models``."""
    model = msgspec.structs.replace(transformer_named("bert-large", _LONG), fused=False)
    start = Job(
        model, Precision.SINGLE, _BATCH, parallel=False, fused_optimizer=False, stop_every=_STOP_EVERY
    )
    return Preset(
        name="academic-bert",
        title="BERT-large with an academic budget",
        start=start,
        measures=_MEASURES,
        cluster="titan-v-server",
        tokens=_STEPS * _BATCH * (_SHORT_SHARE * _SHORT + (1 - _SHORT_SHARE) * _LONG),
        amount="the tokens of BERT's own training",
        published=(
            Published(
                "24 hours on 8 Titan V of 12 GB, sequences of 128 tokens; the training ends after a fixed time",
                "Izsak, Berchansky and Levy 2021, arXiv 2104.07705",
            ),
            Published(
                "12 days on a cluster of widely available GPUs, whose number the abstract does not state",
                "Lin, Li and Pekhimenko 2020, arXiv 2008.00177",
            ),
        ),
    )


def _with(job: Job, **sizes: object) -> Job:
    """The job with other model sizes."""
    changed: Transformer = msgspec.structs.replace(job.model, **sizes)
    return replace(job, model=changed)


_MEASURES = (
    Measure(
        "data_parallel",
        "all GPUs of the cluster, each with its share of the data",
        Semantics.EXACT,
        lambda job: replace(job, parallel=True),
    ),
    Measure(
        "amp",
        "mixed precision: products in float16",
        Semantics.NUMERICS,
        lambda job: replace(job, precision=Precision.HALF),
    ),
    Measure(
        "fused_kernels",
        "normalization and GELU as one kernel each",
        Semantics.NUMERICS,
        lambda job: _with(job, fused=True),
    ),
    Measure(
        "fused_optimizer",
        "the update of all parameters in one pass",
        Semantics.NUMERICS,
        lambda job: replace(job, fused_optimizer=True),
    ),
    Measure(
        "masked_only",
        "logits of masked tokens only",
        Semantics.EXACT,
        lambda job: _with(job, predicted=_MASKED),
    ),
    Measure(
        "short_sequences",
        "sequences of 128 tokens in place of 512",
        Semantics.CONVERGENCE,
        lambda job: _with(job, sequence=_SHORT),
    ),
    Measure(
        "accumulation",
        "steps of 4,096 sequences in place of 256, in several passes",
        Semantics.CONVERGENCE,
        lambda job: replace(job, batch=4096),
    ),
    Measure(
        "rare_stops",
        "no checkpoint and validation after every 256,000 sequences",
        Semantics.EXACT,
        lambda job: replace(job, stop_every=0),
    ),
)
