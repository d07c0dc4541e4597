"""Integer literals in the calls of a training loop: candidates for an unnamed batch size."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from skyline.source.batch_uses import SHAPED
from skyline.source.knob import Knob, KnobKind
from skyline.source.program import Module
from skyline.source.setting_names import means_something_else
from skyline.source.text import SourceText, last_name, span_of, text_of
from skyline.source.training_loop import loop_of

_COUNTING = {"range", "trange"}


def loop_literals(text: SourceText, step_line: int) -> tuple[Knob, ...]:
    """The literals that are the argument of a call, as in ``x = data.sample(128)``, or the first element of one.

    The end of a slice from the beginning counts, too: ``order = torch.randperm(6400)[:64]``.

    The loop is the one around the recorded line of the step. Numbers that occur several times in its body are
    left out, since any of them may be the batch size. Of a tensor's dimensions only the first counts. Raises
    UsageError if the text is not Python.
    """
    module = Module.of(text)
    loop = loop_of(module, step_line)
    if loop is None:
        return ()
    nodes = [node for statement in loop.body for node in ast.walk(statement)]
    numbers = [node.value for node in nodes if isinstance(node, ast.Constant) and _is_size(node)]
    found: list[Knob] = []
    for node in nodes:
        if isinstance(node, ast.Call) and last_name(node.func) in _COUNTING:
            continue
        for name, literal in _arguments(node):
            if numbers.count(literal.value) > 1 or means_something_else(name):
                continue
            span = span_of(text, literal)
            value = literal.value
            assert isinstance(value, int)
            found.append(Knob(name, value, KnobKind.CALL_ARGUMENT, span, text.at(span), (text_of(node),)))
    return tuple(found)


def _arguments(node: ast.AST) -> Iterator[tuple[str, ast.Constant]]:
    match node:
        case ast.Subscript(value, ast.Slice(None, ast.Constant() as end, None)) if _is_size(end):
            yield last_name(value.func if isinstance(value, ast.Call) else value), end
        case ast.Call():
            yield from _of_call(node)
        case _:
            return


def _of_call(call: ast.Call) -> Iterator[tuple[str, ast.Constant]]:
    callee = last_name(call.func)
    named = [(callee, value) for value in (call.args[:1] if callee in SHAPED else call.args)]
    named += [(keyword.arg, keyword.value) for keyword in call.keywords if keyword.arg]
    for name, value in named:
        first = value.elts[0] if isinstance(value, ast.Tuple | ast.List) and value.elts else value
        if isinstance(first, ast.Constant) and _is_size(first):
            yield name, first


def _is_size(node: ast.Constant) -> bool:
    return type(node.value) is int and node.value > 1
