"""Changes of three at a time that are measured whatever is predicted of them: what was measured once stays in."""

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
"""By script, as the result page of November 2026 lists them. To a script that is not here come those that a rule
chooses by predicted effects (``whatifs.triples``); to one that is, too."""


def agreed(script: str) -> list[tuple[Choice, ...]]:
    """The agreed changes of a script, by folder and file; none for one that is not listed."""
    return [tuple(map(_choice, words.split())) for words in AGREED.get(script, ())]


def _choice(words: str) -> Choice:
    name, _, value = words.partition("=")
    return Choice(name, value)


def key(choices: tuple[Choice, ...]) -> str:
    """The same for the same changes in any order."""
    return " ".join(sorted(map(str, choices)))
