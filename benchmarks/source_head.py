"""The beginning of generated scripts: encodings and cookies, docstrings, imports, and the imported names."""

from __future__ import annotations

from dataclasses import dataclass

from source_style import ODDITIES, Style

_ENCODINGS = {
    "utf-8": ("модель", "später"),
    "latin-1": ("modèle", "sp\xe4ter"),
    "cp1251": ("модель", "позже"),
    "shift_jis": ("模型", "後で"),
    "iso-8859-15": ("modèle", "20 €"),
}
"""The encodings, each with a name and a remark beyond ASCII."""
_COOKIES = ("# -*- coding: {} -*-", "# vim: set fileencoding={} :", "# coding={}")


@dataclass(frozen=True)
class Bytes:
    """The encoding, byte order mark and line ends of the saved text."""

    encoding: str
    mark: bool
    newlines: tuple[str, ...]
    """One line end for the whole file, or several in turns."""


def drawn_bytes(style: Style) -> Bytes:
    """An encoding and line ends. Sets names and remarks of the style to characters of the encoding."""
    encoding = style.one(*["utf-8"] * 8, *list(_ENCODINGS)[1:])
    mark = encoding == "utf-8" and style.rarely()
    name, remark = _ENCODINGS[encoding]
    style.wide = (name,)
    style.comments = tuple(each.replace("später", remark) for each in style.comments)
    if encoding != "utf-8":
        style.oddities = tuple(each for each in ODDITIES if each.isascii())
    newlines = style.one(("\n",), ("\n",), ("\n",), ("\r\n",), ("\r\n",), ("\r",))
    return Bytes(encoding, mark, ("\n", "\r\n", "\n") if style.chance(20) else newlines)


def head(style: Style, encoding: str) -> list[str]:
    """Shebang, cookie, docstring and imports. The imported names are stored in ``style.names``."""
    lines = ["#!/usr/bin/env python"] if style.rarely() else []
    if encoding != "utf-8" or style.rarely():
        lines.append(style.one(*_COOKIES).format(encoding))
    if style.sometimes():
        lines += style.one(
            ['"""Trains."""'],
            ["'''Trains: import torch", "  as it is'''"],
            ["# only a comment", ""],
            [r'r"""\d"""  # pattern'],
            ["'''a''' ; 'b'"],
        )
    # A second string is not a docstring, and only comments may precede an import from __future__.
    if style.sometimes() and not (lines and ";" in lines[-1]):
        lines.append(
            style.one("from __future__ import annotations", "from __future__ import (annotations)  # types")
        )
    imports = style.mixed(_torch_imports(style))
    other = style.one(
        "import os",
        "import math, time, os",
        "import os; import numpy as np  # arrays",
        "import os\ntry:\n    import tqdm\nexcept ImportError:\n    tqdm = None",
        "import os\nif os.name == 'posix':\n    import resource",
        "from os import (\n  path,  # paths\n  environ)\nimport os",
        "import os.path as paths, os, \\\n    sys",
    )
    imports.insert(style.one(*range(len(imports) + 1)), other)
    if style.rarely():
        imports.append("from os.path import join; VERSION = 1")
    # Text after an import would become part of its comment.
    imports = [f"{each}  {style.comment()}" if style.rarely() else each for each in imports]
    return [line for text in (*lines, *imports) for line in text.split("\n")]


def _torch_imports(style: Style) -> list[str]:
    names = style.names
    torch = style.one("torch", "torch", "torch", "th")
    imports = ["import torch" if torch == "torch" else f"import torch as {torch}"]
    nn = style.one("torch.nn", "nn", "nn", "layers")
    if nn == "nn":
        imports.append(style.one("from torch import nn", "import torch.nn as nn", "from torch import (nn)"))
    elif nn == "layers":
        imports.append(style.one("from torch import nn as layers", "import torch.nn as layers, math"))
    else:
        nn = f"{torch}.nn"
    functional = style.one("F", "F", "fun", f"{nn}.functional")
    if functional in ("F", "fun"):
        imports.append(
            f"import torch.nn.functional as {functional}"
            if style.often()
            else f"from torch.nn import functional as {functional}"
        )
    made = names["class"]
    way = style.one("attribute", "module", "class", "renamed", "alias")
    names["optim"] = {
        "attribute": f"{torch}.optim.{made}",
        "module": f"optim.{made}",
        "class": made,
        "renamed": "Opt",
        "alias": f"ways.{made}",
    }[way]
    if way == "module":
        imports.append(style.one("from torch import optim", "import torch.optim as optim"))
    elif way == "alias":
        imports.append("import torch.optim as ways")
    elif way in ("class", "renamed"):
        suffix = " as Opt" if way == "renamed" else ""
        imports.append(
            style.one(
                f"from torch.optim import {made}{suffix}", f"from torch.optim import \\\n    {made}{suffix}"
            )
        )
    imports += _data_imports(style)
    wrapper = style.one("attribute", "class", "renamed")
    names["wrapper"] = {
        "attribute": f"{nn}.parallel.DistributedDataParallel",
        "class": "DistributedDataParallel",
        "renamed": "DDP",
    }[wrapper]
    if wrapper != "attribute":
        suffix = " as DDP" if wrapper == "renamed" else ""
        imports.append(f"from torch.nn.parallel import DistributedDataParallel{suffix}")
    names.update(torch=torch, nn=nn, functional=functional)
    return imports


def _data_imports(style: Style) -> list[str]:
    data = style.one(*["DataLoader"] * 5, *["data.DataLoader"] * 3, "Loader", "whole")
    style.names["DataLoader"] = "torch.utils.data.DataLoader" if data == "whole" else data
    if data == "whole":
        return ["import torch.utils.data"]
    if data == "Loader":
        return ["from torch.utils.data import Dataset, DataLoader as Loader"]
    if data == "data.DataLoader":
        return ["from torch.utils import data"]
    return [
        style.one(
            "from torch.utils.data import DataLoader",
            "from torch.utils.data import (\n    DataLoader,  # loads\n)",
            "from torch.utils.data import \\\n  DataLoader",
        )
    ]
