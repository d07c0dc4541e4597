"""Real scripts with a change made by hand, for what-ifs without a rewrite."""

from __future__ import annotations

from dataclasses import dataclass

Edit = tuple[str, str, str]
"""A file next to the script, a text that occurs once in it, and its replacement."""

SCANNED = '''

class Scanned(torch.autograd.Function):
    """Linear layers with ReLU between them; the backward pass multiplies Jacobians in a logarithm of steps."""

    @staticmethod
    def forward(ctx, x, *given):
        weights, biases = given[0::2], given[1::2]
        inputs = []
        for place, (weight, bias) in enumerate(zip(weights, biases)):
            inputs.append(x)
            x = x @ weight.T + bias
            if place + 1 < len(weights):
                x = x.relu()
        ctx.save_for_backward(*weights, *inputs)
        return x

    @staticmethod
    def backward(ctx, gradient):
        count = len(ctx.saved_tensors) // 2
        weights, inputs = ctx.saved_tensors[:count], ctx.saved_tensors[count:]
        products = [weight * (given > 0).unsqueeze(1) for weight, given in zip(weights[1:], inputs[1:])]
        reach = 1
        while reach < len(products):
            products = [
                products[place + reach] @ product if place + reach < len(products) else product
                for place, product in enumerate(products)
            ]
            reach *= 2
        between = [(gradient.unsqueeze(1) @ product).squeeze(1) for product in products] + [gradient]
        of_layers = []
        for one, given in zip(between, inputs):
            of_layers += [one.T @ given, one.sum(0)]
        return between[0] @ weights[0], *of_layers


def scanned(layers, x):
    return Scanned.apply(x, *[one for layer in layers for one in (layer.weight, layer.bias)])

'''
"""BPPSA (Wang, Bai and Pekhimenko, 2020) on one device."""


@dataclass(frozen=True, slots=True)
class Case:
    """A what-if on a script, which is a path from the repository's root or a name in ``corpus.toml``.

    ``settings`` make a public script small enough for a CPU, in both forms. ``{parts}`` in an edit is the number of
    sub-batches. Without ``edits``, shares of lookups, rows, multiplications or bits are compared. For the interval
    between checkpoints, ``values`` are the numbers of iterations that Skyline writes.
    """

    whatif: str
    script: str
    edits: tuple[Edit, ...] = ()
    settings: tuple[Edit, ...] = ()
    values: tuple[int, ...] = ()

    @property
    def public(self) -> bool:
        """True for a script of the corpus."""
        return not self.script.endswith(".py")


OF_SAVES = ("checkpoint_every",)
"""Intervals between checkpoints, which Skyline writes: ``leaner_saves.py``."""
OF_TABLES = ("hot_embeddings", "stale_embeddings")
OF_VALUES = ("zeros", "widths")
"""Findings on the values of layers: SKY306 and SKY308."""
_HEADS = """\
        self.kqv = nn.Linear(n_embd, 3 * head_size, bias=False)
"""
CASES = (
    Case(
        "better_graph",
        "lecture_gpt",
        (
            ("gpt.py", "        self.key = nn.Linear(n_embd, head_size, bias=False)\n", _HEADS),
            ("gpt.py", "        self.query = nn.Linear(n_embd, head_size, bias=False)\n", ""),
            ("gpt.py", "        self.value = nn.Linear(n_embd, head_size, bias=False)\n", ""),
            ("gpt.py", "k = self.key(x)   # (B,T,hs)", "k, q, v = self.kqv(x).chunk(3, dim=-1)"),
            ("gpt.py", "        q = self.query(x) # (B,T,hs)\n", ""),
            ("gpt.py", "        v = self.value(x) # (B,T,hs)\n", ""),
        ),
        (
            ("gpt.py", "batch_size = 64 #", "batch_size = 8 #"),
            ("gpt.py", "block_size = 256 #", "block_size = 64 #"),
            ("gpt.py", "eval_iters = 200", "eval_iters = 1"),
        ),
    ),
    Case(
        "better_graph",
        "book_gpt",
        (
            (
                "previous_chapters.py",
                "        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)\n",
                "        self.W_kqv = nn.Linear(d_in, 3 * d_out, bias=qkv_bias)\n",
            ),
            ("previous_chapters.py", "        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)\n", ""),
            ("previous_chapters.py", "        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)\n", ""),
            (
                "previous_chapters.py",
                "keys = self.W_key(x)  # Shape: (b, num_tokens, d_out)",
                "keys, queries, values = self.W_kqv(x).chunk(3, dim=-1)",
            ),
            ("previous_chapters.py", "        queries = self.W_query(x)\n", ""),
            ("previous_chapters.py", "        values = self.W_value(x)\n", ""),
        ),
    ),
    Case(
        "serialize",
        "examples/small_gpt.py",
        (
            (
                "small_gpt.py",
                "        x = self.blocks(x)\n",
                "        x = torch.cat([self.blocks(part) for part in x.chunk({parts})])\n",
            ),
        ),
        (("small_gpt.py", "max_iters = 500", "max_iters = 500_000"),),
    ),
    Case(
        "serialize",
        "mnist",
        (
            (
                "main.py",
                "output = model(data)\n        loss",
                "output = torch.cat([model(part) for part in data.chunk({parts})])\n        loss",
            ),
        ),
    ),
    Case(
        "scan_backward",
        "benchmarks/fused_scripts/perceptron.py",
        (
            ("perceptron.py", "\n\nclass Perceptron", SCANNED + "\nclass Perceptron"),
            ("perceptron.py", "return self.layers(points)", "return scanned(self.layers[::2], points)"),
        ),
    ),
    Case(
        "scan_backward",
        "vae",
        (
            ("main.py", "\n\nclass VAE", SCANNED + "\nclass VAE"),
            ("main.py", "        h3 = F.relu(self.fc3(z))\n", ""),
            ("main.py", "torch.sigmoid(self.fc4(h3))", "torch.sigmoid(scanned([self.fc3, self.fc4], z))"),
        ),
    ),
    *(
        Case(whatif, script, settings=settings)
        for whatif in OF_TABLES
        for script, settings in (
            ("examples/recommender.py", (("recommender.py", "epochs: int = 3", "epochs: int = 3000"),)),
            ("trans_e", ()),
        )
    ),
    # A batch of 1 makes epochs of 4,000 batches, in which the script counts from 1. Two batches are an iteration.
    Case(
        "checkpoint_every",
        "small_language_model",
        settings=(
            (
                "train_pretrain.py",
                '"--batch_size", type=int, default=32',
                '"--batch_size", type=int, default=1',
            ),
            ("train_pretrain.py", '"--epochs", type=int, default=2', '"--epochs", type=int, default=2000'),
            (
                "train_pretrain.py",
                '"--save_interval", type=int, default=1000',
                '"--save_interval", type=int, default=4',
            ),
        ),
        values=(10, 50),
    ),
    Case(
        "checkpoint_every",
        "set_transformer",
        settings=(
            ("run.py", "SetTransformer(D, K, dim_output).cuda()", "SetTransformer(D, K, dim_output)"),
            ("run.py", "X = X.cuda()", "X = X.cpu()"),
            ("run.py", "'--N_min', type=int, default=300", "'--N_min', type=int, default=50"),
            ("run.py", "'--N_max', type=int, default=600", "'--N_max', type=int, default=51"),
            ("run.py", "'--num_bench', type=int, default=100", "'--num_bench', type=int, default=2"),
            ("run.py", "'--num_steps', type=int, default=50000", "'--num_steps', type=int, default=5000000"),
            ("run.py", "'--test_freq', type=int, default=200", "'--test_freq', type=int, default=2000000"),
            ("run.py", "'--save_freq', type=int, default=400", "'--save_freq', type=int, default=2"),
        ),
        values=(10, 20),
    ),
    *(
        Case(whatif, script, settings=settings)
        for whatif in OF_VALUES
        for script, settings in (("examples/image_classifier.py", ()), ("mnist", ()), ("vae", ()))
    ),
)
