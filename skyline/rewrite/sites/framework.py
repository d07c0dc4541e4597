"""Frameworks that run the training loop for the person, and the call that they are set up by."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Literal

from skyline.rewrite.context import RewriteContext
from skyline.source.calls import qualified_name
from skyline.source.program import Module

Kind = Literal["lightning", "fabric", "transformers", "accelerate"]
_PACKAGES: dict[str, Kind] = {
    "lightning": "lightning",
    "pytorch_lightning": "lightning",
    "lightning_fabric": "fabric",
    "transformers": "transformers",
    "trl": "transformers",
    "accelerate": "accelerate",
}
_TITLES: dict[Kind, str] = {
    "lightning": "PyTorch Lightning",
    "fabric": "Lightning Fabric",
    "transformers": "Hugging Face's Trainer",
    "accelerate": "Accelerate",
}
_SETUP: dict[Kind, tuple[str, ...]] = {
    "lightning": ("Trainer",),
    "fabric": ("Fabric",),
    "transformers": (
        "TrainingArguments",
        "Seq2SeqTrainingArguments",
        "SFTConfig",
        "DPOConfig",
        "RewardConfig",
    ),
    "accelerate": ("Accelerator",),
}


@dataclass(frozen=True, slots=True, eq=False)
class Framework:
    """A framework in use; ``call`` constructs what has its switches (``Trainer(…)``, ``TrainingArguments(…)``)."""

    kind: Kind
    module: Module
    call: ast.Call

    @property
    def title(self) -> str:
        """Its name, as people say it."""
        return _TITLES[self.kind]

    @property
    def owns_loop(self) -> bool:
        """Whether the loop itself is the framework's; Accelerate and Fabric leave it to the person."""
        return self.kind in ("lightning", "transformers")


def framework(context: RewriteContext) -> Framework | None:
    """The framework that the program trains with, None without one. The call that trains is the first found."""
    found: list[Framework] = []
    for module, call in context.program.nodes_of(ast.Call):
        name = qualified_name(module, call.func)
        package, last = name.partition(".")[0], name.rpartition(".")[2]
        kind = _PACKAGES.get(package)
        if kind == "lightning" and last == "Fabric":
            kind = "fabric"
        if kind is not None and last in _SETUP[kind]:
            found.append(Framework(kind, module, call))
    owning = [each for each in found if each.owns_loop]
    return next(iter(owning or found), None)
