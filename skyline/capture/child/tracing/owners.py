"""Who owns the memory that is held at the end of the traced iteration."""

from __future__ import annotations

from ..recording.memory import of_optimizers
from .virtual import VirtualTensor


def owned(ledger, optimizers, modules, on_gpu):
    """Bytes held on the script's device by parameters, gradients, optimizer state and the rest."""
    parameters, states = of_optimizers(optimizers)
    parameters += modules.parameters()
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    seen = set()
    sizes = {
        "parameter_bytes": _taken(parameters, ledger, on_gpu, seen),
        "gradient_bytes": _taken(gradients, ledger, on_gpu, seen),
        "optimizer_bytes": _taken(states, ledger, on_gpu, seen),
    }
    sizes["other_bytes"] = max(0, ledger.live_bytes[on_gpu] - sum(sizes.values()))
    return sizes


def _taken(tensors, ledger, on_gpu, seen):
    total = 0
    for tensor in tensors:
        block = ledger.block(tensor.meta if isinstance(tensor, VirtualTensor) else tensor)
        if block is not None and block.on_gpu == on_gpu and block.address not in seen:
            seen.add(block.address)
            total += block.size_bytes
    return total
