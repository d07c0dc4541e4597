"""Settings of the whole script: TF32, cuDNN's search, threads. Changed where they are made, else made at the start."""

from __future__ import annotations

import ast
from dataclasses import replace

import pytest

from skyline.trace.facts import TorchSettings

DOC = '#!/usr/bin/env python\n# -*- coding: utf-8 -*-\n"""Trains."""\n'
MAIN = "import torch\ndef main():\n    pass\nif __name__ == '__main__':\n    main()\n"
TF32 = 'torch.set_float32_matmul_precision("high")'

WRITTEN = [
    ("tf32", "import torch\nx = 1\n", f"import torch\n{TF32}\nx = 1\n"),
    ("tf32", "import torch  # é\r\nx = 1\r\n", f"import torch  # é\r\n{TF32}\r\nx = 1\r\n"),
    (
        "tf32",
        "import torch as th; x = 1\n",
        'import torch as th; th.set_float32_matmul_precision("high"); x = 1\n',
    ),
    ("tf32", DOC + "x = 1", DOC + f"import torch\n{TF32}\nx = 1"),
    (
        "tf32",
        "try:\n    import torch\nexcept ImportError:\n    raise\nfrom torch import nn\nx = 1\n",
        (
            "try:\n    import torch\nexcept ImportError:\n    raise\nfrom torch import nn\n"
            'import torch as _torch\n_torch.set_float32_matmul_precision("high")\nx = 1\n'
        ),
    ),
    ("tf32", "import os, torch\nos.x = 1\nfrom torch import (\n  nn,\n)\ny = 2\n", None),
    (
        "tf32",
        "import torch\ntorch.set_float32_matmul_precision('highest')  # exact\n",
        'import torch\ntorch.set_float32_matmul_precision("high")  # exact\n',
    ),
    (
        "tf32",
        "from torch.backends import cuda\ncuda.matmul.allow_tf32 = (False)\n",
        "from torch.backends import cuda\ncuda.matmul.allow_tf32 = (True)\n",
    ),
    (
        "tf32",
        "import torch\nclass T:\n\tdef s(self): torch.backends.cuda.matmul.allow_tf32 = False; self.x = 1\n",
        "import torch\nclass T:\n\tdef s(self): torch.backends.cuda.matmul.allow_tf32 = True; self.x = 1\n",
    ),
    ("tf32", "from torch import set_float32_matmul_precision as p\np('medium')\n", ""),
    (
        "cudnn_benchmark",
        "import torch.backends.cudnn as cudnn\nif cuda:\n    cudnn.benchmark = False\n",
        "import torch.backends.cudnn as cudnn\nif cuda:\n    cudnn.benchmark = True\n",
    ),
    (
        "cudnn_benchmark",
        "import torch\nx = 1\n",
        "import torch\ntorch.backends.cudnn.benchmark = True\nx = 1\n",
    ),
    (
        "cudnn_benchmark",
        "from torch.backends import cudnn as c\nx = 1\n",
        "from torch.backends import cudnn as c\nc.benchmark = True\nx = 1\n",
    ),
    ("cudnn_benchmark", "import torch\ntorch.backends.cudnn.benchmark = True\n", ""),
    (
        "cudnn_benchmark",
        "import torch\ntorch.manual_seed(0)\ntorch.backends.cudnn.deterministic = False\n",
        (
            "import torch\ntorch.backends.cudnn.benchmark = True\ntorch.manual_seed(0)\n"
            "torch.backends.cudnn.deterministic = False\n"
        ),
    ),
    (
        "cudnn_benchmark",
        "from __future__ import annotations\nx = 1\n",
        "from __future__ import annotations\nimport torch\ntorch.backends.cudnn.benchmark = True\nx = 1\n",
    ),
    (
        "cudnn_benchmark",
        "def f(torch):\n    pass\nimport torch\n",
        "def f(torch):\n    pass\nimport torch\ntorch.backends.cudnn.benchmark = True\n",
    ),
    (
        "cudnn_benchmark",
        "import torch\nfor cudnn in [torch.backends.cudnn]:\n    torch.backends.cudnn.benchmark=False;x=1\n",
        "import torch\nfor cudnn in [torch.backends.cudnn]:\n    torch.backends.cudnn.benchmark=True;x=1\n",
    ),
    ("cpu_threads=4", "import torch\nx = 1\n", "import torch\ntorch.set_num_threads(4)\nx = 1\n"),
    ("cpu_threads=4", MAIN, MAIN.replace("    main()", "    torch.set_num_threads(4)\n    main()")),
    (
        "cpu_threads=4",
        "if __name__ == '__main__': run()\n",
        "import torch\nif __name__ == '__main__': torch.set_num_threads(4); run()\n",
    ),
    (
        "cpu_threads=4",
        "import torch\ntorch.set_num_threads( 1 )\n",
        "import torch\ntorch.set_num_threads( 4 )\n",
    ),
    ("cpu_threads=4", "from torch import set_num_threads as s\ns(4)\n", ""),
    (
        "cpu_threads=4",
        "import torch as t\nclass A:\n\tdef f(self):\n\t\tt.set_num_threads(int=2)\n",
        "import torch as t\nclass A:\n\tdef f(self):\n\t\tt.set_num_threads(int=4)\n",
    ),
    (
        "cpu_threads=4",
        "import torch\n\n@torch.no_grad()\ndef f(): pass\n",
        "import torch\ntorch.set_num_threads(4)\n\n@torch.no_grad()\ndef f(): pass\n",
    ),
    (
        "cpu_threads=4",
        '"""Only words."""\nimport numpy as np\nnp.x = \\\n  1\n',
        '"""Only words."""\nimport numpy as np\nimport torch\ntorch.set_num_threads(4)\nnp.x = \\\n  1\n',
    ),
]


@pytest.mark.parametrize(("change", "before", "after"), WRITTEN)
def test_written_where_it_belongs(workshop, change: str, before: str, after: str | None) -> None:
    shop = workshop(before)
    changed = shop.edited(change)
    ast.parse(changed)
    if after is not None:
        assert changed == (after or before)
    again = replace(shop, files={**shop.files, "/project/train.py": changed})
    assert again.plan(change).edits == ()


@pytest.mark.parametrize(
    ("change", "source", "said"),
    [
        ("tf32", "import torch\ntorch.set_float32_matmul_precision(p)\n", "when the script runs"),
        ("tf32", "import torch\ntorch.backends.cuda.matmul.allow_tf32 = args.tf32\n", "when the script runs"),
        ("tf32=maybe", "import torch\n", "not a value"),
        ("cudnn_benchmark", "import torch\ntorch.use_deterministic_algorithms(True)\n", "same results"),
        ("cudnn_benchmark", "import torch\ntorch.backends.cudnn.deterministic = True\n", "same results"),
        (
            "cudnn_benchmark",
            "import torch\ntorch.manual_seed(1)\ntorch.backends.cudnn.benchmark = False\n",
            "where the seeds are set",
        ),
        (
            "cudnn_benchmark",
            "import torch.backends.cudnn as c\nc.benchmark = c.enabled = False\n",
            "more than this",
        ),
        (
            "cudnn_benchmark",
            "import torch\ntorch.backends.cudnn.benchmark = not args.seed\n",
            "when the script runs",
        ),
        ("cpu_threads=4", "import torch\ntorch.set_num_threads(args.threads)\n", "when the script runs"),
        (
            "cpu_threads=4",
            "import torch\ntorch.set_num_threads(1)\ntorch.set_num_threads(2)\n",
            "more than once",
        ),
        ("cpu_threads=0", "import torch\n", "not a value"),
        ("cpu_threads=x", "import torch\n", "not a value"),
    ],
)
def test_refused_with_the_reason(workshop, change: str, source: str, said: str) -> None:
    shop = workshop(source)
    assert said in shop.reason(change)
    assert "torch." in shop.plan(change).refused[0].snippet


def test_a_run_that_was_deterministic_is_left_alone(workshop) -> None:
    shop = workshop("import torch\n")
    shop = replace(shop, profile=replace(shop.profile, settings=TorchSettings(deterministic=True)))
    assert "same results" in shop.reason("cudnn_benchmark")


def test_all_together_in_any_order(workshop) -> None:
    shop = workshop("import torch\nx = 1\n")
    changed = shop.edited("tf32", "cpu_threads=2", "cudnn_benchmark")
    assert changed == shop.edited("cudnn_benchmark", "tf32", "cpu_threads=2")
    assert changed.count("\n") == 5
