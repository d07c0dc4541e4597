"""Code that goes into the call that wraps the model, and behind it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from skyline.trace.facts import ParallelFact
from skyline.trace.record import CodeLine

SCRIPT = "/project/train.py"
HEAD = "from torch.nn.parallel import DistributedDataParallel as DDP\n"


def job(workshop, source, line=None, backend="gloo"):
    place = CodeLine(SCRIPT, line) if line else None
    fact = ParallelFact("DistributedDataParallel", backend, 2, 25.0, False, False, False, created_line=place)
    made = workshop(source)
    return replace(made, profile=replace(made.profile, parallel=fact))


CALLS = [
    (HEAD + "m = DDP(net)\n", "ddp_bucket=5", HEAD + "m = DDP(net, bucket_cap_mb=5)\n"),
    (HEAD + "m = DDP(net)\n", "ddp_bucket=2.5", HEAD + "m = DDP(net, bucket_cap_mb=2.5)\n"),
    (
        HEAD + "m = DDP(\n    net,\n    device_ids=[rank],\n)\n",
        "static_graph",
        HEAD + "m = DDP(\n    net,\n    device_ids=[rank],\n    static_graph=True,\n)\n",
    ),
    (
        "import torch\nm = torch.nn.parallel.DistributedDataParallel(net, bucket_cap_mb=25)  # as ever\n",
        "ddp_bucket=100",
        "import torch\nm = torch.nn.parallel.DistributedDataParallel(net, bucket_cap_mb=100)  # as ever\n",
    ),
    (
        "import torch.nn as nn\r\nm = nn.parallel.DistributedDataParallel(net)\r\n",
        "gradient_as_bucket_view",
        "import torch.nn as nn\r\nm = nn.parallel.DistributedDataParallel(net, gradient_as_bucket_view=True)\r\n",
    ),
    (
        HEAD + "def wrap(net):\n    return DDP(net, gradient_as_bucket_view=False)\n",
        "gradient_as_bucket_view",
        HEAD + "def wrap(net):\n    return DDP(net, gradient_as_bucket_view=True)\n",
    ),
    (
        HEAD + "m = DDP(net, **{'dim': 0})\n",
        "static_graph",
        HEAD + "m = DDP(net, static_graph=True, **{'dim': 0})\n",
    ),
    (HEAD + "m = DDP(net, static_graph=True)\n", "static_graph", HEAD + "m = DDP(net, static_graph=True)\n"),
]
ACCELERATE = (
    "from accelerate import Accelerator\n"
    "from accelerate.utils import DistributedDataParallelKwargs\n"
    "kept = DistributedDataParallelKwargs({})\n"
    "accelerator = Accelerator(kwargs_handlers=[kept])\n"
)
LIGHTNING = (
    "import lightning as L\n"
    "from lightning.pytorch.strategies import DDPStrategy\n"
    "trainer = L.Trainer(strategy=DDPStrategy({}), devices=2)\n"
)
IGNITE = "import ignite.distributed as idist\nmodel = idist.auto_model(net{})  # replicas, or none\n"
HANDED_ON = [
    (
        ACCELERATE,
        "find_unused_parameters=True",
        "static_graph",
        "find_unused_parameters=True, static_graph=True",
    ),
    (ACCELERATE, "", "ddp_bucket=50", "bucket_cap_mb=50"),
    (ACCELERATE, "static_graph=False", "static_graph", "static_graph=True"),
    (
        LIGHTNING,
        "find_unused_parameters=True",
        "static_graph",
        "find_unused_parameters=True, static_graph=True",
    ),
    (LIGHTNING, "'cpu'", "gradient_as_bucket_view", "'cpu', gradient_as_bucket_view=True"),
    (
        IGNITE,
        ", find_unused_parameters=True",
        "static_graph",
        ", find_unused_parameters=True, static_graph=True",
    ),
    (IGNITE, ", False, bucket_cap_mb=10", "ddp_bucket=5", ", False, bucket_cap_mb=5"),
]


@pytest.mark.parametrize(("before", "choice", "after"), CALLS)
def test_written_into_the_call(workshop, before, choice, after):
    assert job(workshop, before).edited(choice) == after


@pytest.mark.parametrize(("source", "given", "choice", "written"), HANDED_ON)
def test_written_where_a_framework_takes_its_arguments_from(workshop, source, given, choice, written):
    assert job(workshop, source.format(given)).edited(choice) == source.format(written)
    assert job(workshop, source.format(written)).edited(choice) == source.format(written)


@pytest.mark.parametrize(
    ("source", "choice", "said"),
    [
        (ACCELERATE.format("0"), "static_graph", "without their names"),
        (ACCELERATE.format("**options"), "static_graph", "may set `static_graph`"),
        (ACCELERATE.format("static_graph=args.static"), "static_graph", "computed when the script runs"),
        (ACCELERATE.format("") + "more = DistributedDataParallelKwargs()\n", "static_graph", "More than one"),
        (ACCELERATE.format(""), "ddp_compression=fp16", "Accelerate makes the replicas"),
        (IGNITE.format(""), "static_graph", "may also be called where there is one process"),
        (IGNITE.format(", True, 3, static_graph=False"), "static_graph", "without their names"),
        ("def auto_model(**more): ...\nm = auto_model(find_unused_parameters=True)\n", "static_graph", "No call"),
        ("from mine import DDPStrategy\nm = DDPStrategy(net)\n", "static_graph", "No call makes"),
    ],
)  # fmt: skip
def test_refused_where_a_framework_is_not_understood(workshop, source, choice, said):
    assert said in job(workshop, source).reason(choice)


@pytest.mark.parametrize(
    ("source", "choice", "said"),
    [
        ("m = net\n", "ddp_bucket=5", "No call makes"),
        (HEAD + "a = DDP(x)\nb = DDP(y)\n", "static_graph", "More than one call"),
        (HEAD + "m = DDP(net, **options)\n", "ddp_bucket=5", "may set `bucket_cap_mb`"),
        (HEAD + "m = DDP(net, bucket_cap_mb=size)\n", "ddp_bucket=5", "computed when the script runs"),
        (HEAD + "m = DDP(net, None, None, 0, True, group, 25)\n", "ddp_bucket=5", "differ between versions"),
        (HEAD + "m = DDP(*arguments)\n", "static_graph", "without their names"),
        (
            "class DistributedDataParallel: pass\nm = DistributedDataParallel(net)\n",
            "static_graph",
            "No call",
        ),
        (HEAD + "m = DDP(net)\n", "ddp_bucket=huge", "not a value"),
        (HEAD + "m = DDP(net)\n", "gradient_as_bucket_view=no", "not a value"),
        (
            "from lightning import Trainer\nt = Trainer(strategy='ddp')\n",
            "static_graph",
            "PyTorch Lightning makes the replicas",
        ),
    ],
)
def test_refused_with_the_reason(workshop, source, choice, said):
    assert said in job(workshop, source).reason(choice)


def test_of_several_calls_the_one_that_ran_is_meant(workshop):
    source = HEAD + "if a:\n    m = DDP(x)\nelse:\n    m = DDP(y)\n"
    changed = job(workshop, source, line=5).edited("static_graph")
    assert changed == source.replace("DDP(y)", "DDP(y, static_graph=True)")


IMPORT = "from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook\n"
HOOKS = [
    (
        HEAD + "m = DDP(net)\n",
        HEAD + IMPORT + "m = DDP(net)\nm.register_comm_hook(None, fp16_compress_hook)\n",
    ),
    (
        HEAD
        + "class T:\n    def __init__(self, net):\n        self.model = DDP(net)\n        self.step = 0\n",
        HEAD + IMPORT + "class T:\n    def __init__(self, net):\n        self.model = DDP(net)\n"
        "        self.model.register_comm_hook(None, fp16_compress_hook)\n        self.step = 0\n",
    ),
    (
        HEAD + "if ranks > 1: m = DDP(net)\n",
        HEAD + IMPORT + "if ranks > 1: m = DDP(net); m.register_comm_hook(None, fp16_compress_hook)\n",
    ),
    (
        HEAD
        + "from torch.distributed.algorithms.ddp_comm_hooks import default_hooks as hooks\nm: DDP = DDP(net)\n",
        HEAD
        + "from torch.distributed.algorithms.ddp_comm_hooks import default_hooks as hooks\nm: DDP = DDP(net)\n"
        "m.register_comm_hook(None, hooks.fp16_compress_hook)\n",
    ),
]


@pytest.mark.parametrize(("before", "after"), HOOKS)
def test_the_hook_is_registered_behind_the_wrapping(workshop, before, after):
    assert job(workshop, before).edited("ddp_compression=fp16") == after
    assert job(workshop, after).edited("ddp_compression=fp16") == after


@pytest.mark.parametrize(
    ("source", "choice", "said"),
    [
        (HEAD + "m = DDP(net)\n", "ddp_compression=bf16", "over NCCL only"),
        (HEAD + "m = DDP(net)\n", "ddp_compression=int8", "not a value"),
        (HEAD + "m = prepare(DDP(net))\n", "ddp_compression=fp16", "not assigned to a name"),
        (HEAD + "def f(net):\n    return DDP(net)\n", "ddp_compression=fp16", "not assigned to a name"),
        (HEAD + "m = DDP(net)\nm.register_comm_hook(None, mine)\n", "ddp_compression=fp16", "already"),
        (HEAD + "a = b = DDP(net)\n", "ddp_compression=fp16", "not assigned to a name"),
    ],
)
def test_no_hook_where_it_cannot_go(workshop, source, choice, said):
    assert said in job(workshop, source).reason(choice)


def test_bfloat16_over_nccl(workshop):
    changed = job(workshop, HEAD + "m = DDP(net)\n", backend="nccl").edited("ddp_compression=bf16")
    assert changed.endswith("m.register_comm_hook(None, bf16_compress_hook)\n")


def test_all_of_them_together(workshop):
    shop = job(workshop, HEAD + "m = DDP(net)\n")
    names = ["ddp_compression=fp16", "static_graph", "ddp_bucket=5", "gradient_as_bucket_view"]
    changed = shop.edited(*names)
    assert changed == shop.edited(*reversed(names))
    assert "DDP(net, bucket_cap_mb=5, gradient_as_bucket_view=True, static_graph=True)" in changed
