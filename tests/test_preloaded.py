"""The stand-in that tests put in the place of PyTorch's compiler: out of the way as soon as something compiles."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("torch", reason="it is PyTorch's compiler")

PROGRAM = """
import sys
import torch

model = torch.nn.Linear(4, 4)
optimizer = torch.optim.Adam(model.parameters())


def step(called):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        called(torch.ones(2, 4)).sum().backward()
        optimizer.step()
    return "torch._dynamo.eval_frame" in sys.modules


print(step(model), step(torch.compile(model, backend="eager")))
import torch._dynamo.utils as utils
print(utils is torch._dynamo.utils, utils.counters["frames"]["ok"], torch._inductor.config.triton.cudagraphs)
# What the stand-in left alone is handed to the compiler at its next call.
torch.optim.SGD(model.parameters(), lr=0.1)
alone = torch.optim.Optimizer.add_param_group.__wrapped__
print(vars(alone)["__dynamo_disable"] is not alone)
"""


@pytest.mark.usefixtures("brief_start")
def test_the_compiler_is_imported_by_what_compiles_and_by_nothing_before() -> None:
    ran = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["False", "True", "True", "1", "False", "True"]
