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
_SWITCHES: dict[Kind, tuple[str, ...]] = {
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
"""The classes whose arguments switch number formats, workers and the like."""
_DRIVERS: dict[Kind, tuple[str, ...]] = {
    "lightning": ("LightningCLI",),
    "fabric": (),
    "transformers": ("Trainer", "Seq2SeqTrainer", "SFTTrainer", "DPOTrainer", "RewardTrainer"),
    "accelerate": (),
}
"""The classes that train, where the switches come from elsewhere: a command line, a file."""


@dataclass(frozen=True, slots=True, eq=False)
class Framework:
    """A framework in use.

    ``call`` constructs what has its switches (``Trainer(…)``, ``TrainingArguments(…)``), where ``takes_switches``;
    else they come from elsewhere, such as a command line, and ``call`` is only where the framework is used.
    """

    kind: Kind
    module: Module
    call: ast.Call
    takes_switches: bool = True

    @property
    def title(self) -> str:
        """Its name, as people say it."""
        return _TITLES[self.kind]

    @property
    def owns_loop(self) -> bool:
        """True if the loop itself is the framework's; Accelerate and Fabric leave it to the person."""
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
        if kind is not None and last in (*_SWITCHES[kind], *_DRIVERS[kind]):
            found.append(Framework(kind, module, call, last in _SWITCHES[kind]))
    return min(found, key=lambda each: (not each.owns_loop, not each.takes_switches), default=None)
