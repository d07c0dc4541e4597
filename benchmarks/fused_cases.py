"""Scripts whose runs are fused by hand: the edits of each, and the data for a check of its losses."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

HERE = Path(__file__).resolve().parent
_STACKED = "models = [{made} for _ in range({jobs})]\n{indent}weights, buffers = torch.func.stack_module_state(models)"
_EACH = "each_loss = torch.func.vmap(loss_of, ({dims}), randomness='different')(weights, buffers, {batch})"
_CALL = "torch.func.functional_call(models[0], (weights, buffers), ({input},))"
_STEPS = 8


@dataclass(frozen=True, slots=True)
class FusedCase:
    """A script, and the edits that fuse its runs.

    ``made`` is the expression that makes the model, ``loop`` is the text at which its training begins, and ``batch``
    has the variable names of a batch. ``loss`` is the expression of the loss; ``CALL`` in it stands for the model
    called on the first name. ``edits`` are further replacements in the fused script. ``quiet`` are replacements that
    keep a run from drawing random numbers. ``draw`` is code that binds the names of a batch for the check.
    """

    script: Path
    made: str
    loop: str
    batch: str
    loss: str
    draw: str
    edits: tuple[tuple[str, str], ...]
    quiet: tuple[tuple[str, str], ...] = ()
    arguments: tuple[str, ...] = ()
    neighbours: tuple[str, ...] = ()
    """Names of files and folders that the script reads from its own folder."""

    @property
    def name(self) -> str:
        """The name in tables."""
        return self.script.stem

    @property
    def text(self) -> str:
        """The unchanged script."""
        return self.script.read_text(encoding="utf-8")

    def fused(self, jobs: int) -> str:
        """The script with ``jobs`` models trained at once, as a person would write it."""
        first = self.batch.partition(",")[0]
        loss = self.loss.replace("CALL", _CALL.format(input=first))
        function = f"def loss_of(weights, buffers, {self.batch}):\n    return {loss}\n\n\n"
        # The models differ in weights and buffers, and share each batch.
        dims = ", ".join(["0", "0", *["None"] * len(self.batch.split(","))])
        each = _EACH.format(dims=dims, batch=self.batch)
        text = self.text
        for old, new in self.edits:
            if text.count(old) != 1:
                raise ValueError(f"{self.name}: {old!r} is there {text.count(old)} times")
            text = text.replace(old, new.format(jobs=jobs, each=each))
        head, mark, rest = text.partition(self.loop)
        return f"{head.rstrip()}\n\n\n{function}{mark.lstrip()}{rest}"


def stacked(made: str, indent: str = "") -> str:
    """Code for the models and their stacked weights. ``jobs`` is filled in later."""
    return _STACKED.format(made=made, jobs="{jobs}", indent=indent)


CASES = (
    FusedCase(
        HERE / "fused_scripts" / "perceptron.py",
        "Perceptron()",
        "\nfor _ in range(1000)",
        "inputs, targets",
        "nn.functional.cross_entropy(CALL, targets)",
        "inputs, targets = next(iter(loader))",
        (
            ("model = Perceptron()", stacked("Perceptron()")),
            ("model.parameters()", "weights.values()"),
            ("loss = nn.functional.cross_entropy(model(inputs), targets)", "{each}"),
            ("loss.backward()", "each_loss.sum().backward()"),
        ),
    ),
    FusedCase(
        HERE / "fused_scripts" / "recurrent.py",
        "Recurrent()",
        "\nfor _ in range(1000)",
        "inputs, targets",
        "nn.functional.cross_entropy(CALL.flatten(0, 1), targets.flatten())",
        "inputs, targets = next(iter(loader))",
        (
            ("model = Recurrent()", stacked("Recurrent()")),
            ("model.parameters()", "weights.values()"),
            ("loss = nn.functional.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())", "{each}"),
            ("loss.backward()", "each_loss.sum().backward()"),
        ),
    ),
    FusedCase(
        HERE.parent / "examples" / "image_classifier.py",
        "SmallResNet()",
        "\n@torch.no_grad()\ndef evaluate",
        "images, labels",
        "F.cross_entropy(CALL, labels, label_smoothing=0.05)",
        "images, labels = next(iter(DataLoader(Gratings(64, normalize, seed=0), batch_size=32, shuffle=True)))",
        (
            (
                "    model = SmallResNet().to(device)",
                "    global models, weights, buffers\n    " + stacked("SmallResNet().to(device)", "    "),
            ),
            ("AdamW(model.parameters(), lr", "AdamW(weights.values(), lr"),
            ("        logits = model(images)\n", ""),
            ("loss = F.cross_entropy(logits, labels, label_smoothing=0.05)", "{each}"),
            ("loss.backward()", "loss = each_loss.sum()\n        loss.backward()"),
            ("    model.train()\n    start", "    start"),
            ("train_one_epoch(model, train_loader", "train_one_epoch(None, train_loader"),
            ("        accuracy = evaluate(model, test_loader, device)\n", ""),
            ('        print(f"epoch {epoch} test accuracy {accuracy:.1%}")\n', ""),
        ),
    ),
    FusedCase(
        HERE.parent / "examples" / "small_gpt.py",
        "GPT()",
        "\nfor it in range(max_iters):",
        "xb, yb",
        "torch.func.functional_call(models[0], (weights, buffers), (xb, yb))[1]",
        "xb, yb = get_batch('train')",
        (
            ("model = GPT().to(device)", stacked("GPT().to(device)") + "\nmodel = models[0]"),
            ("AdamW(model.parameters(), lr", "AdamW(weights.values(), lr"),
            ("logits, loss = model(xb, yb)\n    optimizer", "{each}\n    optimizer"),
            ("loss.backward()", "each_loss.sum().backward()"),
            ("if it > 0 and it % eval_interval == 0:", "if False:"),
            ("max_iters = 500", "max_iters = 500_000"),
        ),
        (("dropout = 0.1", "dropout = 0.0"),),
    ),
)  # fmt: skip


_OF_MODELS = "\n    model = models[0]\n    weights, buffers = torch.func.stack_module_state(models)"
_CLIPPED = """\
norms = torch.stack([one.grad.flatten(1).norm(dim=1) for one in weights.values()]).norm(dim=0)
            for one in weights.values():
                one.grad.mul_((1 / (norms + 1e-6)).clamp(max=1).view(-1, *[1] * (one.dim() - 1)))"""
"""``clip_grad_norm_`` for each run separately."""


def public(folder: Path) -> tuple[FusedCase, ...]:
    """Public scripts in ``folder``: checkouts of karpathy/makemore and tanelp/tiny-diffusion under these names."""
    return (
        FusedCase(
            folder / "makemore" / "makemore.py",
            "Transformer(ModelConfig(vocab_size=27, block_size=16))",
            "\nif __name__ == '__main__':",
            "X, Y",
            "torch.func.functional_call(models[0], (weights, buffers), (X, Y))[1]",
            "X, Y = torch.randint(27, (32, 16)), torch.randint(27, (32, 16))",
            (
                (
                    "        model = Transformer(config)",
                    "        " + stacked("Transformer(config)", "        ") + "\n        model = models[0]",
                ),
                ("AdamW(model.parameters(), lr", "AdamW(weights.values(), lr"),
                (
                    "feed into the model\n        logits, loss = model(X, Y)\n",
                    "\n        {each}\n        loss = each_loss.sum()\n",
                ),
                ("model.zero_grad(set_to_none=True)", "optimizer.zero_grad(set_to_none=True)"),
                ("if step > 0 and step % 500 == 0:", "if False:"),
                ("if step > 0 and step % 200 == 0:", "if False:"),
            ),
            arguments=("--num-workers", "0"),
            neighbours=("names.txt",),
        ),
        FusedCase(
            folder / "tiny-diffusion" / "ddpm.py",
            "MLP()",
            '\nif __name__ == "__main__":',
            "noisy, timesteps, noise",
            "F.mse_loss(torch.func.functional_call(models[0], (weights, buffers), (noisy, timesteps)), noise)",
            "noisy, timesteps, noise = torch.randn(32, 2), torch.randint(50, (32,)), torch.randn(32, 2)",
            (
                ("    model = MLP(\n        hidden", "    models = [MLP(\n        hidden"),
                (
                    "input_emb=config.input_embedding)",
                    "input_emb=config.input_embedding) for _ in range({jobs})]" + _OF_MODELS,
                ),
                ("model.parameters(),\n        lr", "weights.values(),\n        lr"),
                (
                    "noise_pred = model(noisy, timesteps)\n            loss = F.mse_loss(noise_pred, noise)",
                    "{each}\n            loss = each_loss.sum()",
                ),
                ("nn.utils.clip_grad_norm_(model.parameters(), 1.0)", _CLIPPED),
            ),
            neighbours=("datasets.py", "positional_embeddings.py", "static"),
        ),
    )


def losses(case: FusedCase, jobs: int) -> tuple[list[list[float]], list[list[float]]]:
    """The losses of some steps, by step and run: of separate runs, and of fused runs.

    Both see the same batches. They compute in double precision, because in single precision eight steps of AdamW
    amplify rounding a thousandfold in a residual network.
    """
    text = case.text
    for old, new in case.quiet:
        text = text.replace(old, new)
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        return _losses(case, text, jobs)
    finally:
        torch.set_default_dtype(before)


def _losses(case: FusedCase, text: str, jobs: int) -> tuple[list[list[float]], list[list[float]]]:
    space: dict[str, Any] = {"__name__": "fused_case"}
    arguments, sys.argv = sys.argv, [str(case.script)]
    sys.path.insert(0, str(case.script.parent))
    try:
        exec(compile(text.partition(case.loop)[0], str(case.script), "exec", dont_inherit=True), space)
    finally:
        sys.argv = arguments
        sys.path.remove(str(case.script.parent))
    names = [one.strip() for one in case.batch.split(",")]
    batches: list[tuple[Tensor, ...]] = []
    for _ in range(_STEPS):
        exec(case.draw, space)
        drawn: list[Tensor] = [space[name] for name in names]
        batches.append(tuple(one.double() if one.is_floating_point() else one for one in drawn))

    def made(seed: int) -> nn.Module:
        torch.manual_seed(seed)
        model: nn.Module = eval(case.made, space)
        return model

    first = names[0]
    loss_text = case.loss.replace("CALL", _CALL.format(input=first))

    def loss_of(models: list[nn.Module]) -> Callable[..., Tensor]:
        local = {**space, "models": models, "torch": torch, "functional_call": functional_call}
        exec(f"def loss_of(weights, buffers, {case.batch}):\n    return {loss_text}\n", local)
        return local["loss_of"]

    apart: list[list[float]] = [[] for _ in range(_STEPS)]
    for seed in range(jobs):
        model = made(seed)
        alone, one = loss_of([model]), torch.optim.AdamW(model.parameters(), lr=1e-3)
        for step, batch in enumerate(batches):
            loss = alone(dict(model.named_parameters()), dict(model.named_buffers()), *batch)
            one.zero_grad()
            loss.backward()
            one.step()
            apart[step].append(loss.item())
    models = [made(seed) for seed in range(jobs)]
    weights, buffers = stack_module_state(models)
    together, optimizer = loss_of(models), torch.optim.AdamW(weights.values(), lr=1e-3)
    fused: list[list[float]] = []
    for batch in batches:
        shared = (None,) * len(batch)
        each = vmap(together, (0, 0, *shared), randomness="different")(weights, buffers, *batch)
        optimizer.zero_grad()
        each.sum().backward()
        optimizer.step()
        fused.append(each.tolist())
    return apart, fused
