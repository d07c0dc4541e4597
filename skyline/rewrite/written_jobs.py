"""The class that the rewrite of ``fuse_jobs`` writes, and its calls in a program."""

from __future__ import annotations

import ast

from skyline.rewrite.context import RewriteContext
from skyline.source.program import Module

CLASS, ATTRIBUTE = "FusedJobs", "fused_jobs"
CLIP = "clip_grad_norm_"
_TEXT = (
    f"class {CLASS}:",
    '    """Runs that train at once: each parameter of a model is a row of a stacked one."""',
    "",
    "    def __init__(self, model, make, jobs):",
    "        self.models, seed = [model], {torch}.initial_seed()",
    "        for job in range(1, jobs):",
    "            with {torch}.random.fork_rng(range({torch}.cuda.device_count())):",
    "                {torch}.manual_seed(seed + job)",
    "                self.models.append(make())",
    "        own = [id(one) for each in self.models for one in (*each.parameters(), *each.buffers())]",
    "        if len(set(own)) < len(own):",
    '            raise ValueError("the models of several runs share a parameter or a buffer")',
    "        self.weights, buffers = {torch}.func.stack_module_state(self.models)",
    "        # Buffers that are alike, such as masks, stay one tensor; the statistics of a normalization change.",
    '        changing = ("running_mean", "running_var", "num_batches_tracked")',
    "        self.buffers = {{",
    "            name: one",
    "            for name, one in buffers.items()",
    "            if name.endswith(changing) or not (one == one[:1]).all()",
    "        }}",
    "        stacked = {{**self.weights, **self.buffers}}",
    "        for job, each in enumerate(self.models):",
    "            for name, one in (*each.named_parameters(), *each.named_buffers()):",
    "                if name in stacked:",
    "                    one.data = stacked[name].data[job]",
    "",
    "    def parameters(self):",
    "        return list(self.weights.values())",
    "",
    "    def losses(self, loss_of):",
    '        """The results of ``loss_of`` for the models of all runs."""',
    "",
    "        def of_one(weights, buffers):",
    "            def model(*given, **named):",
    "                state = (weights, buffers)",
    "                return {torch}.func.functional_call(self.models[0], state, given, named)",
    "",
    "            return loss_of(model)",
    "",
    '        return {torch}.func.vmap(of_one, randomness="different")(self.weights, self.buffers)',
)
_ZERO_GRAD = (
    "",
    "    def zero_grad(self, set_to_none=True):",
    "        for one in self.weights.values():",
    "            if set_to_none:",
    "                one.grad = None",
    "            elif one.grad is not None:",
    "                one.grad.zero_()",
)
_CLIP = (
    "",
    f"    def {CLIP}(self, max_norm):",
    '        """Clips the gradient of each run by its own norm."""',
    "        grads = [one.grad for one in self.weights.values() if one.grad is not None]",
    "        norms = {torch}.stack([one.reshape(len(one), -1).norm(dim=1) for one in grads]).norm(dim=0)",
    "        scale = (max_norm / (norms + 1e-6)).clamp(max=1)",
    "        for one in grads:",
    "            one.mul_(scale.view(-1, *[1] * (one.dim() - 1)))",
)


def class_text(torch: str, *, zero_grad: bool = False, clip: bool = False) -> tuple[str, ...]:
    """The lines of the class, with the methods that the script needs; ``torch`` is the name of the package there."""
    lines = (*_TEXT, *(_ZERO_GRAD if zero_grad else ()), *(_CLIP if clip else ()))
    return tuple(line.replace("{torch}", torch).replace("{{", "{").replace("}}", "}") for line in lines)


def written_calls(context: RewriteContext) -> list[tuple[Module, ast.Call]]:
    """The calls of the class, in files that define a class of this name."""
    return [
        (module, call)
        for module, call in context.program.nodes_of(ast.Call)
        if isinstance(call.func, ast.Name)
        and call.func.id == CLASS
        and any(isinstance(each, ast.ClassDef) and each.name == CLASS for each in module.tree.body)
    ]
