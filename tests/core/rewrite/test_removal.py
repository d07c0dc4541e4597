"""Changes are found in the code and taken out, whoever wrote them; what is not plain is refused with its place."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType

import pytest

from skyline.rewrite.registry import RewriteEntry, entries
from skyline.rewrite.removal import removal_edits, removals
from skyline.trace.facts import BatchFact, CallFact
from skyline.trace.profile import SourceFile
from skyline.trace.record import CodeLine

SCRIPT = "/project/train.py"
HEAD = "import torch\nmodel = make()\noptimizer = torch.optim.Adam(model.parameters())\n"
STEP = "    loss.backward()\n    optimizer.step()\n"
LOOP = "for x, y in loader:\n    loss = f(model(x), y)\n" + STEP
LOADER = "import torch\nfrom torch.utils.data import DataLoader\nmodel = make()\n"
MOVES = "for x, y in l:\n    x = x.to(device{})\n    loss = model(x)\n" + STEP
EVALUATE = "def evaluate(model):\n    model.eval()\n    return sum(model(x).sum().item() for x in val)\n"

CASES = {
    # what-if, the value that is found, before, after
    "fused": (
        "fused_optimizer", "fused",
        HEAD.replace("s())", "s(), fused=True, lr=0.1)") + LOOP,
        HEAD.replace("s())", "s(), lr=0.1)") + LOOP,
    ),
    "foreach in a call over several lines": (
        "fused_optimizer", "foreach",
        "import torch\no = torch.optim.SGD(\n    ps,  # all\n    foreach=True,  # quick\n    lr=0.1,\n)\n",
        "import torch\no = torch.optim.SGD(\n    ps,  # all\n    lr=0.1,\n)\n",
    ),
    "workers take along what needs them": (
        "num_workers", "4",
        "l = DataLoader(d, 16, num_workers=4, prefetch_factor=2, persistent_workers=True, drop_last=True)\n",
        "l = DataLoader(d, 16, drop_last=True)\n",
    ),
    "workers by a name": (
        "num_workers", "4",
        "workers = 4\nl = DataLoader(d, num_workers=workers, persistent_workers=workers > 0)\n",
        "workers = 0\nl = DataLoader(d, num_workers=workers, persistent_workers=workers > 0)\n",
    ),
    "workers by their place": (
        "num_workers", "4",
        "l = DataLoader(d, 16, True, None, None, 4)\n",
        "l = DataLoader(d, 16, True, None, None, 0)\n",
    ),
    "workers in a mapping": (
        "num_workers", "4",
        "k = {'num_workers': 4, 'persistent_workers': True}\nl = DataLoader(d, **k)\n",
        "k = {'num_workers': 0}\nl = DataLoader(d, **k)\n",
    ),
    "persistent workers": (
        "persistent_workers", "on",
        "l = DataLoader(\n    d,\n    num_workers=4,\n    persistent_workers=True,\n)\n",
        "l = DataLoader(\n    d,\n    num_workers=4,\n)\n",
    ),
    "batches ahead": (
        "prefetch_factor", "8",
        "l = DataLoader(d, num_workers=n, prefetch_factor=8 if n > 0 else None)\n",
        "l = DataLoader(d, num_workers=n)\n",
    ),
    "pinned": (
        "pin_memory", "on",
        LOADER + "l = DataLoader(d, pin_memory=True, shuffle=True)\n" + MOVES.format(", non_blocking=True"),
        LOADER + "l = DataLoader(d, shuffle=True)\n" + MOVES.format(""),
    ),
    "compiled, by function": (
        "compile", "default",
        HEAD.replace("make()\n", "make()\nmodel = torch.compile(model)  # quick\n") + LOOP,
        HEAD + LOOP,
    ),
    "compiled where it is made": (
        "compile", "max-autotune",
        HEAD.replace("make()", "torch.compile(make(), mode='max-autotune')") + LOOP,
        HEAD + LOOP,
    ),
    "compiled under another name": (
        "compile", "default",
        HEAD + "fast = torch.compile(model)\n" + LOOP,
        HEAD + "fast = model\n" + LOOP,
    ),
    "compiled by decorators": (
        "compile", "default",
        HEAD + "@torch.compile\ndef f(a, b): pass\n@torch.compile(dynamic=True)  # é\n@g\ndef h(): pass\n" + LOOP,
        HEAD + "def f(a, b): pass\n@g\ndef h(): pass\n" + LOOP,
    ),
    "compiled where there is a compiler": (
        "compile", "default",
        HEAD + "if hasattr(torch, 'compile'):\n    model = torch.compile(model)\n" + LOOP,
        HEAD + "if hasattr(torch, 'compile'):\n    pass\n" + LOOP,
    ),
    "graphs": (
        "cuda_graphs", "on",
        HEAD.replace("make()\n", "make()\nmodel.compile(mode='reduce-overhead')\n") + LOOP,
        HEAD + LOOP,
    ),
    "cuDNN": (
        "cudnn_benchmark", "on",
        "import torch\nfrom torch.backends import cudnn\ncudnn.benchmark = True  # quick\ntorch.manual_seed(0)\n",
        "import torch\nfrom torch.backends import cudnn\ntorch.manual_seed(0)\n",
    ),
    "cuDNN on a condition": (
        "cudnn_benchmark", "on",
        "import torch\nif torch.cuda.is_available():\n    torch.backends.cudnn.benchmark = True\n",
        "import torch\nif torch.cuda.is_available():\n    torch.backends.cudnn.benchmark = False\n",
    ),
    "TF32, in all ways": (
        "tf32", "on",
        (
            "import torch\ntorch.backends.cuda.matmul.allow_tf32 = True\ntorch.set_float32_matmul_precision('medium')\n"
            "def main():\n    torch.set_float32_matmul_precision('high'); torch.manual_seed(0)\n"
        ),
        "import torch\ndef main():\n    torch.set_float32_matmul_precision(\"highest\"); torch.manual_seed(0)\n",
    ),
    "threads": (
        "cpu_threads", "2",
        "import torch\ntorch.set_num_threads(2)\ntorch.manual_seed(0)\n",
        "import torch\ntorch.manual_seed(0)\n",
    ),
    "evaluation, decorated": (
        "inference_mode", "on",
        HEAD + "@torch.no_grad()\n" + EVALUATE + LOOP,
        HEAD + EVALUATE + LOOP,
    ),
    "evaluation, inside": (
        "inference_mode", "on",
        (
            HEAD + "def evaluate(model):\n    model.eval()\n    with torch.inference_mode():  # no gradients\n"
            "        # all of them\n        for x in val:\n            print(model(x))\n        # é\n    return 1\n"
            + LOOP
        ),
        (
            HEAD + "def evaluate(model):\n    model.eval()\n    # all of them\n    for x in val:\n"
            "        print(model(x))\n    # é\n    return 1\n" + LOOP
        ),
    ),
    "evaluation that begins with a decorated function": (
        "inference_mode", "on",
        (
            HEAD + "def evaluate(model):\n    model.eval()\n    with torch.no_grad():\n        @g\n"
            "        def h(x): return model(x)\n        print(h(val))\n" + LOOP
        ),
        (
            HEAD + "def evaluate(model):\n    model.eval()\n    @g\n    def h(x): return model(x)\n"
            "    print(h(val))\n" + LOOP
        ),
    ),
    "gradients are kept": (
        "zero_grad", "on",
        HEAD + "for x in loader:\n    optimizer.zero_grad(set_to_none=True)\n    loss = model(x)\n" + STEP,
        HEAD + "for x in loader:\n    optimizer.zero_grad(set_to_none=False)\n    loss = model(x)\n" + STEP,
    ),
    "gradients that are set to None by hand": (
        "zero_grad", "on",
        HEAD + LOOP + "    if v.grad is not None: v.grad = None\n    w.grad = None\n",
        HEAD + LOOP + "    if v.grad is not None: v.grad.zero_()\n    w.grad.zero_()\n",
    ),
    "channels last": (
        "channels_last", "on",
        (
            HEAD.replace("make()\n", "make().to(device, memory_format=torch.channels_last)\n")
            + "for x, y in loader:\n    x = x.to(device, memory_format=torch.channels_last)\n"
            "    y = (x * 2).contiguous(memory_format=torch.channels_last)\n    loss = f(model(x), y)\n" + STEP
        ),
        (
            HEAD.replace("make()\n", "make().to(device)\n")
            + "for x, y in loader:\n    x = x.to(device)\n    y = (x * 2)\n    loss = f(model(x), y)\n" + STEP
        ),
    ),
    "autocast": (
        "amp", "fp16",
        (
            HEAD + "for x, y in loader:\n    with torch.cuda.amp.autocast():  # 16 bits\n        # forward\n"
            "        loss = f(model(x),\n    y)\n        '''text\n        more'''\n" + STEP
        ),
        (
            HEAD + "for x, y in loader:\n    # forward\n    loss = f(model(x),\ny)\n    '''text\n        more'''\n"
            + STEP
        ),
    ),
    "autocast on the line of its block": (
        "amp", "bf16",
        HEAD + "for x, y in loader:\n    with torch.autocast('cuda', torch.bfloat16): loss = f(model(x), y)\n" + STEP,
        HEAD + LOOP,
    ),
    "autocast beside another": (
        "amp", "bf16",
        HEAD + "for x, y in loader:\n    with timer, torch.autocast('cpu'):\n        loss = f(model(x), y)\n" + STEP,
        HEAD + "for x, y in loader:\n    with timer:\n        loss = f(model(x), y)\n" + STEP,
    ),
    "autocast before another": (
        "amp", "bf16",
        HEAD + "for x, y in loader:\n    with torch.autocast('cpu'), timer:\n        loss = f(model(x), y)\n" + STEP,
        HEAD + "for x, y in loader:\n    with timer:\n        loss = f(model(x), y)\n" + STEP,
    ),
    "autocast with a scaler": (
        "amp", "fp16",
        (
            HEAD.replace("torch\n", "torch\nfrom torch.cuda.amp import GradScaler\n")
            + "scaler = GradScaler()\nfor x, y in loader:\n"
            "    with torch.autocast('cuda', dtype=torch.float16):\n        loss = f(model(x), y)\n"
            "        scaler.scale(loss / 2).backward()\n    scaler.unscale_(optimizer)\n    clip(model)\n"
            "    scaler.step(optimizer); scaler.update()\n"
        ),
        (
            HEAD + "for x, y in loader:\n    loss = f(model(x), y)\n    (loss / 2).backward()\n    clip(model)\n"
            "    optimizer.step()\n"
        ),
    ),
    "the switch of a framework": (
        "amp", "bf16",
        "import lightning as L\nL.Trainer(max_epochs=1, precision='bf16-mixed').fit(model)\n",
        "import lightning as L\nL.Trainer(max_epochs=1).fit(model)\n",
    ),
    "blocks that are computed again": (
        "checkpointing", "all",
        (
            "import torch.utils.checkpoint as c\nclass Net:\n    def forward(self, x):\n        for b in self.blocks:\n"
            "            x = c.checkpoint(b, x, None, use_reentrant=False, preserve_rng_state=True)\n        return x\n"
        ),
        (
            "import torch.utils.checkpoint as c\nclass Net:\n    def forward(self, x):\n        for b in self.blocks:\n"
            "            x = b(x, None)\n        return x\n"
        ),
    ),
    "a block without arguments": (
        "checkpointing", "all",
        (
            "import torch.utils.checkpoint as c\nclass Net:\n    def forward(self):\n"
            "        return c.checkpoint(self.block, use_reentrant=False)\n"
        ),
        "import torch.utils.checkpoint as c\nclass Net:\n    def forward(self):\n        return self.block()\n",
    ),
    "blocks that are called as one": (
        "checkpointing", "all",
        (
            "import torch.utils.checkpoint as c\nfrom torch import nn\nclass Net:\n    def __init__(self):\n"
            "        self.blocks = nn.Sequential(a, b)\n    def forward(self, x):\n        for b in self.blocks:\n"
            "            x = c.checkpoint(b, x, use_reentrant=False)\n        return x\n"
        ),
        (
            "import torch.utils.checkpoint as c\nfrom torch import nn\nclass Net:\n    def __init__(self):\n"
            "        self.blocks = nn.Sequential(a, b)\n    def forward(self, x):\n        x = self.blocks(x)\n"
            "        return x\n"
        ),
    ),
    "blocks of a model that switches them": (
        "checkpointing", "all",
        "model = make()\nmodel.gradient_checkpointing_enable()\n",
        "model = make()\n",
    ),
    "a hook": (
        "ddp_compression", "bf16",
        (
            "from torch.nn.parallel import DistributedDataParallel as DDP\n"
            "from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook\n"
            "m = DDP(net)\nm.register_comm_hook(None, bf16_compress_hook)\n"
        ),
        "from torch.nn.parallel import DistributedDataParallel as DDP\nm = DDP(net)\n",
    ),
    "buckets": (
        "ddp_bucket", "100",
        "from torch.nn.parallel import DistributedDataParallel as DDP\nm = DDP(net, bucket_cap_mb=100)\n",
        "from torch.nn.parallel import DistributedDataParallel as DDP\nm = DDP(net)\n",
    ),
    "sparse gradients": (
        "sparse_embedding", "on",
        "from torch import nn\nm = nn.Embedding(10, 4, sparse=True, padding_idx=0)\n",
        "from torch import nn\nm = nn.Embedding(10, 4, padding_idx=0)\n",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_what_a_person_wrote_is_found_and_taken_out(workshop, case: str) -> None:
    name, value, before, after = CASES[case]
    shop = workshop(before)
    assert shop.present(name) == value
    planned = shop.without(name)
    assert planned.refused == ()
    made = shop.after(planned)
    assert made.files[SCRIPT] == after
    compile(after, SCRIPT, "exec", dont_inherit=True)
    again = made.present(name)
    assert again is None
    assert "was not found in the code" in made.without(name).refused[0].reason


@pytest.mark.parametrize("case", ["fused", "autocast with a scaler", "workers take along what needs them"])
def test_other_line_ends_stay(workshop, case: str) -> None:
    name, _, before, after = CASES[case]
    shop = workshop(before.replace("\n", "\r\n"))
    assert shop.after(shop.without(name)).files[SCRIPT] == after.replace("\n", "\r\n")


ABSENT = {
    "gradients of updates by hand": (
        "inference_mode",
        HEAD + "for x in loader:\n    model(x).backward()\n    with torch.no_grad():\n        w -= w.grad\n",
    ),
    "seeds": ("cudnn_benchmark", "import torch\ntorch.backends.cudnn.benchmark = False\n"),
    "regular expressions": ("compile", "import re\np = re.compile('a')\nre.compile('b')\n"),
    "no workers": ("num_workers", "l = DataLoader(d, num_workers=0)\n"),
    "switched off": (
        "amp",
        HEAD + "for x in loader:\n    with torch.autocast('cuda', enabled=False):\n        loss = model(x)\n" + STEP,
    ),
    "not compiled": ("compile", HEAD + "model = torch.compile(model, disable=True)\n" + LOOP),
    "exact products": ("tf32", "import torch\ntorch.set_float32_matmul_precision('highest')\n"),
    "an option that was not given": (
        "compile", HEAD + "if args.compile:\n    model = torch.compile(model)\n" + LOOP,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", ABSENT)
def test_what_is_not_in_the_code_is_not_found(workshop, case: str) -> None:
    name, source = ABSENT[case]
    assert workshop(source).present(name) is None


def test_several_come_out_together(workshop) -> None:
    source = HEAD + "for x, y in loader:\n    optimizer.zero_grad()\n    loss = f(model(x), y)\n" + STEP
    shop = workshop(source, optimizers=(("Adam", 3),))
    names = ("fused_optimizer", "amp", "compile", "tf32", "cudnn_benchmark")
    written = shop.after(shop.plan("fused_optimizer", "amp=fp16", "compile", "tf32", "cudnn_benchmark"))
    assert all(written.present(name) is not None for name in names)
    assert written.after(written.without(*names)).files[SCRIPT] == source
    assert written.after(written.without(*reversed(names))).files[SCRIPT] == source
    one_by_one = written
    for name in names:
        one_by_one = one_by_one.after(one_by_one.without(name))
    assert one_by_one.files[SCRIPT] == source


def test_a_refused_part_leaves_the_others(workshop) -> None:
    shop = workshop(HEAD.replace("s())", "s(), fused=True)") + LOOP)
    planned = shop.without("sdpa", "fused_optimizer", "remove_sync")
    assert [edit.old_text for edit in planned.edits] == [", fused=True"]
    assert [refused.name for refused in planned.refused] == ["sdpa", "remove_sync"]
    assert "Skyline cannot remove remove_sync from code" in planned.refused[1].reason


def test_it_survives_other_edits_of_the_file(workshop) -> None:
    shop = workshop(HEAD + LOOP, optimizers=(("Adam", 3),))
    written = shop.after(shop.plan("fused_optimizer", "amp=bf16"))
    moved = "# what is new\nimport os\n\n" + written.files[SCRIPT].replace(
        "parameters(), ", "parameters(),\n  "
    )
    there = replace(written, files={SCRIPT: moved})
    back = there.after(there.without("fused_optimizer", "amp")).files[SCRIPT]
    assert back == "# what is new\nimport os\n\n" + HEAD + LOOP


def test_an_import_goes_with_the_code_that_it_was_for(workshop) -> None:
    used = "from torch import nn\n" + HEAD.replace("import torch\n", "").replace("torch.", "nn.") + LOOP
    shop = workshop(used)
    written = shop.after(shop.plan("amp=bf16"))
    assert "import torch\n" in written.files[SCRIPT]
    assert written.after(written.without("amp")).files[SCRIPT] == used
    other = replace(written, files={SCRIPT: written.files[SCRIPT] + "torch.manual_seed(0)\n"})
    assert "import torch\n" in other.after(other.without("amp")).files[SCRIPT]


def test_an_import_that_stands_elsewhere_stays(workshop) -> None:
    head = "import torch  # for later\nfrom torch import nn\nimport torch.optim\n"
    shop = workshop(head + "model = torch.compile(nn.Linear(1, 1))\n")
    made = shop.after(shop.without("compile"))
    assert made.files[SCRIPT] == head + "model = nn.Linear(1, 1)\n"


def test_accumulation_that_the_script_does_itself(workshop) -> None:
    shop = workshop(HEAD + LOOP)
    profile = replace(shop.profile, batch=BatchFact((16,), 64, micro_batches=4))
    shop = replace(shop, profile=profile)
    assert shop.present("grad_accumulation") == "4"
    assert "by itself" in shop.without("grad_accumulation").refused[0].reason


def test_evaluation_is_found_where_the_run_told(workshop) -> None:
    source = (
        HEAD + "with torch.no_grad():\n    print(model(z))\nwith torch.no_grad():\n    w.fill_(0)\n" + LOOP
    )
    shop = workshop(source)
    told = CallFact("eval forward", 0.1, CodeLine(SCRIPT, 5), {"grad_enabled": False})
    shop = replace(shop, profile=replace(shop.profile, calls=(told,)))
    made = shop.after(shop.without("inference_mode")).files[SCRIPT]
    assert made == HEAD + "print(model(z))\nwith torch.no_grad():\n    w.fill_(0)\n" + LOOP


def test_one_analysis_answers_by_name(workshop) -> None:
    shop = workshop(HEAD.replace("s())", "s(), fused=True)") + LOOP)
    shop = replace(shop, profile=replace(shop.profile, sources=(SourceFile(SCRIPT, "", shop.files[SCRIPT]),)))

    class Analysed:
        profile, baseline = shop.profile, None

    assert [edit.old_text for edit in removals(Analysed(), ("fused_optimizer",), shop.read).edits] == [
        ", fused=True"
    ]
    assert len(removals(Analysed(), ("fused_optimizer", "amp"), shop.read).refused) == 1
    assert removal_edits(shop.context(), "remove_sync") is None


def test_a_module_that_binds_one_of_both_is_left_as_it_was() -> None:
    module = ModuleType("plugin")
    module.NAME, module.rewrite, module.remove = "plugin", lambda context, value: (), print
    entry = RewriteEntry.of(module)
    assert entry is not None
    assert (entry.present, entry.remove) == (None, None)
    assert all((entry.present is None) == (entry.remove is None) for entry in entries().values())
    # Without a place to look at, and without anything to write back, there is nothing to switch off.
    assert {name for name, each in entries().items() if each.remove is None} == {
        "adaptive_softmax",
        "batch_size",
        "checkpoint_every",
        "data_parallel",
        "fsdp",
        "fuse_jobs",
        "keep_memory",
        "pad_to_multiple",
        "remove_sync",
    }
