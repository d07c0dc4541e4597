"""A name is had through an import that is there, or one that is added where imports live."""

from __future__ import annotations

import ast

import pytest

from skyline.rewrite.imports import usable
from skyline.source.program import Module
from skyline.source.text import SourceText

AUTOCAST, CHECKPOINT = "torch.autocast", "torch.utils.checkpoint:checkpoint"


@pytest.mark.parametrize(
    ("source", "target", "text"),
    [
        ("import torch\nHERE\n", AUTOCAST, "torch.autocast"),
        ("import os, torch as th\nHERE\n", AUTOCAST, "th.autocast"),
        ("from torch import autocast as a\nHERE\n", AUTOCAST, "a"),
        ("from torch import nn\nHERE\n", "torch.nn.functional.relu", "nn.functional.relu"),
        ("import torch.nn.functional as F\nHERE\n", "torch.nn.functional.relu", "F.relu"),
        ("import torch.utils.checkpoint\nHERE\n", CHECKPOINT, "torch.utils.checkpoint.checkpoint"),
        ("from torch.utils import checkpoint as c\nHERE\n", CHECKPOINT, "c.checkpoint"),
        ("def f():\n    import torch\n    HERE\n", AUTOCAST, "torch.autocast"),
        ("import torch\nimport torch.nn\ndef f(): HERE\n", AUTOCAST, "torch.autocast"),
    ],
)
def test_an_import_that_is_there_is_used(source: str, target: str, text: str) -> None:
    assert asked(source, target) == (text, source)


@pytest.mark.parametrize(
    ("source", "target", "text", "after"),
    [
        ("HERE", AUTOCAST, "torch.autocast", "import torch\nHERE"),
        ("import torch\nHERE\n", CHECKPOINT, "checkpoint",
         "import torch\nfrom torch.utils.checkpoint import checkpoint\nHERE\n"),
        ("import torch  # é\r\nimport os\r\nHERE\r\n", CHECKPOINT, "checkpoint",
         "import torch  # é\r\nfrom torch.utils.checkpoint import checkpoint\r\nimport os\r\nHERE\r\n"),
        ("import torch\ncheckpoint = 'x.pt'\nHERE\n", CHECKPOINT, "_checkpoint",
         ("import torch\nfrom torch.utils.checkpoint import checkpoint as _checkpoint\n"
         "checkpoint = 'x.pt'\nHERE\n")),
        ("#!/bin/x\n# -*- coding: utf-8 -*-\n'''Doc.'''\nfrom __future__ import annotations\nHERE\n", AUTOCAST,
         "torch.autocast",
         "#!/bin/x\n# -*- coding: utf-8 -*-\n'''Doc.'''\nfrom __future__ import annotations\nimport torch\nHERE\n"),
        ("#!/bin/x\n# why\n'''Doc.'''\nHERE\n", AUTOCAST, "torch.autocast",
         "#!/bin/x\n# why\n'''Doc.'''\nimport torch\nHERE\n"),
        ("import torch\ndef f(torch): HERE\n", AUTOCAST, "_torch.autocast",
         "import torch\nimport torch as _torch\ndef f(torch): HERE\n"),
        ("try:\n  import torch\nexcept E: pass\nHERE\n", AUTOCAST, "_torch.autocast",
         "import torch as _torch\ntry:\n  import torch\nexcept E: pass\nHERE\n"),
        ("import os; x = 1\ndef f():\n  HERE\n  import torch\n", AUTOCAST, "_torch.autocast",
         "import os; import torch as _torch; x = 1\ndef f():\n  HERE\n  import torch\n"),
        ("import torch.nn.functional as F\nHERE\nimport torch\n", AUTOCAST, "_torch.autocast",
         "import torch.nn.functional as F\nimport torch as _torch\nHERE\nimport torch\n"),
        ("if x:\n  import torch\nHERE\n", "contextlib:nullcontext", "contextlib.nullcontext",
         "import contextlib\nif x:\n  import torch\nHERE\n"),
    ],
)  # fmt: skip
def test_or_one_is_added_beside_its_like(source: str, target: str, text: str, after: str) -> None:
    assert asked(source, target) == (text, after)


def asked(source: str, target: str) -> tuple[str, str]:
    module = Module.of(SourceText.of("train.py", source))
    place = next(node for node in ast.walk(module.tree) if isinstance(node, ast.Name) and node.id == "HERE")
    found = usable(module, target, place)
    after = module.source.apply(found.edits).text
    ast.parse(after)
    again = Module.of(SourceText.of("train.py", after))
    place = next(node for node in ast.walk(again.tree) if isinstance(node, ast.Name) and node.id == "HERE")
    assert usable(again, target, place).edits == ()
    return found.text, after
