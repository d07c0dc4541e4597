"""Combinations of three changes that are always measured, whatever their prediction. Measured ones stay in the list."""

from __future__ import annotations

from skyline.whatif.question import Choice

AGREED: dict[str, tuple[str, ...]] = {
    "examples/image_classifier.py": (
        "batch_size=8 checkpointing=all cpu_threads=1",
        "amp=bf16 grad_accumulation=4 channels_last",
        "compile=default num_workers=1 fused_optimizer",
        "batch_size=8 checkpointing=all amp=bf16",
    ),
    "examples/small_gpt.py": (
        "batch_size=64 checkpointing=all cpu_threads=1",
        "amp=bf16 fused_optimizer compile=default",
        "batch_size=64 checkpointing=all amp=bf16",
        "batch_size=64 cpu_threads=1 amp=bf16",
    ),
    "examples/recommender.py": (
        "batch_size=2048 cpu_threads=1 sparse_embedding",
        "fused_optimizer amp=bf16 num_workers=1",
        "batch_size=2048 cpu_threads=1 compile=default",
        "batch_size=2048 cpu_threads=1 fused_optimizer",
    ),
}
"""The combinations by script, as on the result page of November 2026. In addition, every script gets the combinations
that a rule chooses by their predicted effects (``whatifs.triples``)."""


def agreed(script: str) -> list[tuple[Choice, ...]]:
    """The agreed changes of a script, given as folder and file. Empty if the script is not listed."""
    return [tuple(map(_choice, words.split())) for words in AGREED.get(script, ())]


def _choice(words: str) -> Choice:
    name, _, value = words.partition("=")
    return Choice(name, value)


def key(choices: tuple[Choice, ...]) -> str:
    """A key that does not depend on the order of the changes."""
    return " ".join(sorted(map(str, choices)))
