"""Ways in which a save can break a training script, each with a description."""

from __future__ import annotations

TRAIN = """\
import torch

torch.set_num_threads(1)
batch_size = 16
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(100_000):
    inputs = torch.randn(batch_size, 64)
    loss = (model(inputs) - inputs.sum(1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""

BROKEN: dict[str, str | bytes | None] = {
    "a syntax error": TRAIN.replace("for step in", "for step on"),
    "raises while it is imported": "import torch\nraise RuntimeError('not today')\n",
    "raises in the third iteration": TRAIN + "    if step == 2:\n        raise ValueError('diverged')\n",
    "leaves with os._exit": "import os\nos._exit(5)\n",
    "crashes in native code": "import ctypes\nctypes.string_at(0)\n",
    "an endless loop before the training": "while True:\n    pass\n",
    "sleeps and ignores SIGTERM": (
        "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(1000)\n"
    ),
    "no training step": "import torch\nprint(torch.ones(3).sum())\n",
    "too few iterations": TRAIN.replace("100_000", "2"),
    "imports what there is not": "import torch\nimport a_module_that_nobody_wrote\n",
    "the file is gone": None,
    "an empty file": "",
    "no text at all": b"\x00\xff\xfe\x80\x00" * 200,
    "sys.exit(3)": "import sys\nsys.exit(3)\n",
    "closes its outputs": "import os\nos.close(1)\nos.close(2)\n" + TRAIN,
    "kills its own process group": "import os, signal\nos.killpg(0, signal.SIGKILL)\n",
    "kills its parent process": "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)\n" + TRAIN,
    "asks for more memory than there is": "import torch\ntorch.empty(10**15)\n",
    "forks children that never end": (
        "import os, time\n"
        "for _ in range(4):\n    if os.fork() == 0:\n        time.sleep(1000)\n"
        "raise RuntimeError('and leaves them')\n"
    ),
    "starts a program in a session of its own": (
        "import subprocess, sys\n"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(1000)'], start_new_session=True)\n"
        "raise RuntimeError('and leaves it')\n"
    ),
    "detaches a fork of itself": (
        "import os, time\n"
        "if os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        time.sleep(1000)\n    os._exit(0)\n"
        "raise RuntimeError('and leaves it')\n"
    ),
}
"""Content of the file after each save. None: the file is removed."""
