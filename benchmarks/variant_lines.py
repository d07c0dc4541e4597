"""The places in a generated script whose lines a run would report."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping

from skyline.source.text import Located, SourceText, offsets_of, parse

_INNER = ("to", "cuda", "item", "print", "zero_grad", "backward", "step")
_OF_EVALUATION = "vx"
At = Callable[[Located], int]
_LAYERS = {"self.words": ("Embedding", "EmbeddingBag"), "self.out": ("Linear",), "self.body": ("Conv2d",)}


def places_of(source: SourceText, names: Mapping[str, str]) -> dict[str, int]:
    """Offsets by name: ``loop``, calls by the called name, forward passes as ``forward Net``."""
    places: dict[str, int] = {}

    def at(node: Located) -> int:
        return offsets_of(source, node)[0]

    tree = parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.For) and names["loader"] in ast.unparse(node.iter):
            if _OF_EVALUATION not in ast.unparse(node.target):
                places.setdefault("loop", at(node))
        elif isinstance(node, ast.ClassDef):
            for method in node.body:
                if isinstance(method, ast.FunctionDef) and method.name == "forward":
                    places[f"forward {node.name}"] = at([*method.decorator_list, method][0])
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            _note_layers(node, places, at)
        elif isinstance(node, ast.Call):
            _note(node, names, places, at)
    return places


def _note_layers(node: ast.Assign | ast.AnnAssign, places: dict[str, int], at: At) -> None:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    for target in map(ast.unparse, targets):
        for call in ast.walk(node):
            last = ast.unparse(call.func).rpartition(".")[2] if isinstance(call, ast.Call) else ""
            if isinstance(call, ast.Call) and last in _LAYERS.get(target, ()):
                places[f"{target} made"] = at(call)


def _note(node: ast.Call, names: Mapping[str, str], places: dict[str, int], at: At) -> None:
    called = ast.unparse(node.func)
    given = ast.unparse(node.args[0]) if node.args else ""
    kind = called.rpartition(".")[2]
    for name in ("optimizer", "loader", "wrapper"):
        meant = {"optimizer": "optim", "loader": "DataLoader", "wrapper": "wrapper"}[name]
        kind = f"{name} made" if called == names[meant] else kind
    if given == _OF_EVALUATION and kind not in ("print", "len"):
        places["eval forward"] = at(node)
        return
    if called == names["model"]:
        kind = "model"
    # If a call is in several places, the innermost belongs to the iteration.
    places[kind] = at(node) if kind in _INNER else places.get(kind, at(node))
