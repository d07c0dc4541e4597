"""Search for the training loop over batches in the source alone."""

from __future__ import annotations

import ast
import re

from skyline.source.program import Module
from skyline.source.setting_names import is_evaluation, words
from skyline.source.text import Function, SourceSpan, SourceText, last_name, offsets_of

Loop = ast.For | ast.AsyncFor | ast.While
# Objects with a ``step`` method that is not a training step.
OTHER_STEPPERS = {
    "scheduler", "sched", "lr", "profiler", "prof", "env", "environment", "ema", "game", "warmup",
}  # fmt: skip
_BACKWARD, _STEP = "backward", "step"
_DEPTH_LIMIT = 8


def find(text: SourceText, step_line: int | None = None) -> SourceSpan | None:
    """The header of the loop over batches; None if nothing in the file trains.

    ``step_line`` is the recorded line of the optimizer step, or its line on the call stack. The result is then the loop
    around that line; if the line's function has none, the loop around a call of that function. Raises UsageError if the
    text is not Python.
    """
    loop = loop_of(Module.of(text), step_line)
    return _header(text, loop) if loop is not None else None


def loop_of(module: Module, step_line: int | None = None) -> Loop | None:
    """The loop over batches in a parsed file; see ``find``."""
    search = _LoopSearch(module)
    loop = search.around(step_line) if step_line is not None else None
    return loop or search.best()


class _LoopSearch:
    """The loops of one file; each function is examined once."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.functions: dict[str, list[Function]] = {}
        self.loops: list[Loop] = []
        for node in ast.walk(module.tree):
            if isinstance(node, Function):
                self.functions.setdefault(node.name, []).append(node)
            elif isinstance(node, Loop):
                self.loops.append(node)
        self.loops.sort(key=lambda loop: (loop.lineno, loop.col_offset))
        self._judged: dict[ast.AST, frozenset[str]] = {}

    def best(self) -> Loop | None:
        """The training loop by the content of its body: both backward and step, or else either."""
        for wanted in ({_BACKWARD, _STEP}, {_STEP}, {_BACKWARD}):
            able = [loop for loop in self.loops if wanted <= self.does(loop)]
            inner = [loop for loop in able if not any(self._inside(other, loop) for other in able)]
            if inner:
                return min(inner, key=lambda loop: (self._evaluates(loop), loop.lineno))
        return None

    def around(self, line: int, depth: int = 0) -> Loop | None:
        """The loop that repeats a line; the search includes the callers."""
        enclosing = [loop for loop in self.loops if loop.body[0].lineno <= line <= _last_line(loop)]
        function = self._function_at(line)
        own = [loop for loop in enclosing if function is None or self._inside(loop, function)]
        if own:
            # Innermost first; a loop over optimizers or micro-batches is inside the loop over batches.
            own.reverse()
            trains = [loop for loop in own if {_BACKWARD, _STEP} <= self.does(loop)]
            return (trains or own)[0]
        if function is None or depth > _DEPTH_LIMIT:
            return None
        for node in ast.walk(self.module.tree):
            if not isinstance(node, ast.Call) or last_name(node.func) != function.name:
                continue
            elsewhere = function is not self._function_at(node.lineno)
            if elsewhere and (loop := self.around(node.lineno, depth + 1)):
                return loop
        return None

    def does(self, node: ast.AST, depth: int = 0) -> frozenset[str]:
        """The parts of a training step (backward, step) in each iteration of a loop, or in a call of a function.

        A function with its own training loop has neither: it is an epoch, not an iteration.
        """
        if node in self._judged or depth > _DEPTH_LIMIT:
            return self._judged.get(node, frozenset())
        self._judged[node] = frozenset()  # recursion ends here
        found: set[str] = set()
        for child in _within(node):
            if isinstance(child, ast.Call):
                found |= self._call(child, depth)
        if isinstance(node, Function) and self._trains_in_loop(node, depth):
            found = set()
        self._judged[node] = frozenset(found)
        return self._judged[node]

    def _call(self, call: ast.Call, depth: int) -> set[str]:
        name = last_name(call.func)
        if isinstance(call.func, ast.Attribute):
            if name in (_BACKWARD, "manual_backward"):
                return {_BACKWARD}
            if name in (_STEP, "optimizer_step"):
                owner = set(words(ast.unparse(call.func.value)))
                return set() if owner & OTHER_STEPPERS and "optimizer" not in owner else {_STEP}
        found: set[str] = set()
        for function in self.functions.get(name, []):
            found |= self.does(function, depth + 1)
        return found

    def _trains_in_loop(self, function: Function, depth: int) -> bool:
        inside = [loop for loop in self.loops if self._inside(loop, function)]
        return any({_BACKWARD, _STEP} <= self.does(loop, depth + 1) for loop in inside)

    def _inside(self, node: ast.AST, outer: ast.AST) -> bool:
        return node is not outer and any(around is outer for around in self.module.around(node))

    def _function_at(self, line: int) -> Function | None:
        holding = [
            function
            for functions in self.functions.values()
            for function in functions
            if function.lineno <= line <= _last_line(function)
        ]
        return max(holding, key=lambda function: function.lineno, default=None)

    def _evaluates(self, loop: Loop) -> bool:
        return any(
            isinstance(around, Function) and is_evaluation(around.name) for around in self.module.around(loop)
        )


def _within(node: ast.AST) -> list[ast.AST]:
    """The nodes executed with this one, without the bodies of functions that are only defined in it."""
    found: list[ast.AST] = []
    waiting: list[ast.AST] = list(node.body) if isinstance(node, Function | Loop) else [node]
    while waiting:
        current = waiting.pop()
        found.append(current)
        if not isinstance(current, Function | ast.ClassDef):
            waiting.extend(ast.iter_child_nodes(current))
    return found


def _last_line(node: Loop | Function) -> int:
    return node.end_lineno or node.lineno


def _header(text: SourceText, loop: Loop) -> SourceSpan:
    start, _ = offsets_of(text, loop)
    _, end = offsets_of(text, loop.test if isinstance(loop, ast.While) else loop.iter)
    # Only brackets, comments and line ends can occur between the expression and the colon.
    colon = re.compile(r"(?:[\s)\\]|#[^\r\n]*)*:").match(text.text, end)
    return text.span(start, colon.end() if colon else end)
