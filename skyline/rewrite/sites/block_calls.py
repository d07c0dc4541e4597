"""The calls of a model's repeated blocks: in a loop over them, through their container, or one by one."""

from __future__ import annotations

import ast
from typing import NoReturn, TypeVar

from skyline.errors import RewriteRefused
from skyline.lazy_dataclass import dataclass
from skyline.rewrite.argument import add_keyword
from skyline.rewrite.blocks import replace, statement_of, wrap, wrap_expression
from skyline.rewrite.context import RewriteContext, refusal
from skyline.rewrite.imports import free_name, usable
from skyline.source.program import Module
from skyline.source.text import Function, TextEdit, last_name, offsets_of, text_of
from skyline.whatif.blocks import Blocks

_KEPT_STATE = {
    "cache", "caches", "past", "past_key_value", "past_key_values", "kv_cache", "layer_past", "state", "aux",
}  # fmt: skip
"""Names of state that a block may change: recomputed, it would change the state twice."""


def check_arguments(module: Module, call: ast.Call, taken: set[str]) -> None:
    """Refuses arguments that ``checkpoint`` would take for itself, or that the block may change."""
    for keyword in call.keywords:
        if keyword.arg is None or keyword.arg in taken:
            what = f"`**{text_of(keyword.value)}` may hold" if keyword.arg is None else f"`{keyword.arg}` is"
            raise refusal(f"{what} an argument that checkpoint takes for itself", module, call)
    for node in (*call.args, *(keyword.value for keyword in call.keywords)):
        for child in ast.walk(node):
            name = (
                child.id
                if isinstance(child, ast.Name)
                else child.attr
                if isinstance(child, ast.Attribute)
                else ""
            )
            if name in _KEPT_STATE or isinstance(child, ast.NamedExpr):
                message = f"`{text_of(node)}` may be changed by the block, which would happen twice"
                raise refusal(message, module, call)


def check_forward(context: RewriteContext, blocks: Blocks) -> None:
    """Refuses blocks whose forward pass changes its inputs or its own attributes, or returns no tensors."""
    facts = {fact.path: fact for fact in context.profile.modules}
    for path in blocks.paths:
        fact = facts.get(path)
        if fact is None or fact.class_line is None:
            continue
        module, line = context.place(fact.class_line)
        forward = next(
            (
                node
                for node in module.nodes
                if isinstance(node, Function)
                and line in (node.lineno, *(decorator.lineno for decorator in node.decorator_list))
            ),
            None,
        )
        if forward is None:
            raise RewriteRefused("The block's forward pass was not found", file=module.path, line=line)
        first_inside = {
            fact.path.rpartition(".")[2]: bool(fact.options.get("inplace"))
            for fact in facts.values()
            if fact.path.rpartition(".")[0] == path
        }
        _check_changes(module, forward, first_inside)
        break


def _check_changes(module: Module, forward: Function, in_place: dict[str, bool]) -> None:
    arguments = {
        each.arg for each in (*forward.args.posonlyargs, *forward.args.args, *forward.args.kwonlyargs)
    }
    own = forward.args.args[0].arg if forward.args.args else "self"
    given = arguments - {own}
    for statement in forward.body:
        for node in ast.walk(statement):
            if (reason := _changes(node, given, own, in_place)) is not None:
                raise RewriteRefused(reason, file=module.path, line=getattr(node, "lineno", forward.lineno))
        # The name now stands for a new object.
        if isinstance(statement, ast.Assign):
            for target in statement.targets:
                value = statement.value
                if isinstance(target, ast.Name) and not isinstance(value, ast.Name):
                    given = given - {target.id}


def _changes(node: ast.AST, given: set[str], own: str, in_place: dict[str, bool]) -> str | None:
    match node:
        case ast.AugAssign(target=ast.Name(id=name)) if name in given:
            return f"The block changes its input `{name}` in place"
        case ast.Assign(targets=[ast.Subscript(value=ast.Name(id=name))]) if name in given:
            return f"The block writes into its input `{name}`"
        case ast.Assign(targets=[ast.Attribute(value=ast.Name(id=name), attr=attribute)]) if name == own:
            return f"The block's forward pass sets `self.{attribute}`, which would happen twice"
        case ast.AugAssign(target=ast.Attribute(value=ast.Name(id=name), attr=attribute)) if name == own:
            return f"The block's forward pass changes `self.{attribute}`, which would happen twice"
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method)) if (
            name in given and method.endswith("_") and not method.startswith("_")
        ):
            return f"The block changes its input `{name}` in place"
        case ast.Call(func=callee, args=[ast.Name(id=name), *_], keywords=keywords) if name in given:
            switched = any(
                each.arg == "inplace" and isinstance(each.value, ast.Constant) and each.value.value is True
                for each in keywords
            )
            if switched or (isinstance(callee, ast.Attribute) and in_place.get(last_name(callee))):
                return f"The block changes its input `{name}` in place"
        case ast.Yield() | ast.YieldFrom() | ast.Await():
            return "The block's forward pass is a generator"
        case _:
            return None
    return None


Node = TypeVar("Node", bound=ast.AST)
_OWN = {"use_reentrant", "preserve_rng_state", "context_fn", "determinism_check", "debug", "early_stop"}
"""Arguments of ``checkpoint`` itself."""


@dataclass(frozen=True, slots=True, eq=False)
class BlockCalls:
    """The calls of some blocks in the class that holds them.

    ``holder`` is the expression for their container (``self.blocks``), ``names`` are their attributes if they
    are held one by one; ``methods`` are searched for calls.
    """

    module: Module
    methods: tuple[Function, ...]
    holder: str
    names: tuple[str, ...]
    size: int

    def checkpointed(self, context: RewriteContext, count: int) -> tuple[TextEdit, ...]:
        """The edits that put the first ``count`` blocks under ``checkpoint``; refused if the calls are not plain."""
        if self.names:
            return self._one_by_one(count)
        loops = [
            (loop, *element) for loop in self._nodes(ast.For) if (element := self._element(loop)) is not None
        ]
        calls = self._nodes(ast.Call)
        whole = [call for call in calls if ast.unparse(call.func) == self.holder]
        indexed = [
            call
            for call in calls
            if isinstance(call.func, ast.Subscript)
            and ast.unparse(call.func.value) == self.holder
            and not isinstance(call.func.slice, ast.Slice)
        ]
        if any(self._is_checkpoint(call, self.holder, indexed=True) for call in calls):
            return ()
        ways = len(loops) + len(whole) + len(indexed)
        if ways != 1:
            said = "is not called in a recognised way" if not ways else "is iterated more than once"
            self._refuse(f"`{self.holder}` {said}", self.methods[0] if self.methods else None)
        if loops:
            return self._in_loop(*loops[0], count)
        if whole:
            return self._as_whole(whole[0], count)
        call = indexed[0]
        assert isinstance(call.func, ast.Subscript)
        return self._call(call, text_of(call.func, 200), _below(text_of(call.func.slice), count, self.size))

    def _in_loop(self, loop: ast.For, index: str, target: ast.expr, count: int) -> tuple[TextEdit, ...]:
        if not isinstance(target, ast.Name):
            self._refuse(f"`for {text_of(loop.target)} in …` unpacks the blocks", loop)
        assert isinstance(target, ast.Name)
        inside = [
            node for statement in loop.body for node in ast.walk(statement) if isinstance(node, ast.Call)
        ]
        calls = [call for call in inside if isinstance(call.func, ast.Name) and call.func.id == target.id]
        if any(self._is_checkpoint(call, target.id) for call in inside):
            return ()
        if len(calls) != 1:
            many = "more than once" if calls else "in no recognised way"
            self._refuse(f"The loop over `{self.holder}` calls a block {many}", loop)
        edits: tuple[TextEdit, ...] = ()
        if count < self.size and not index:
            index = free_name(self.module, "index", "block")
            names = ast.unparse(loop.target)  # a tuple in parentheses
            edits = (
                *replace(self.module, loop.target, f"{index}, {names}"),
                *wrap_expression(self.module, loop.iter, "enumerate(", ")"),
            )
        condition = _below(index, count, self.size)
        return (*edits, *self._call(calls[0], target.id, condition))

    def _as_whole(self, call: ast.Call, count: int) -> tuple[TextEdit, ...]:
        """Turns ``x = self.blocks(x)`` into a loop over the blocks, which is what ``nn.Sequential`` does."""
        statement = statement_of(self.module, call)
        begin, end = offsets_of(self.module.source, call)
        if "#" in self.module.source.text[begin:end]:
            self._refuse(f"`{text_of(call)}` has a comment inside", call)
        plain = (
            isinstance(statement, ast.Assign)
            and statement.value is call
            and len(statement.targets) == 1
            and isinstance(statement.targets[0], ast.Name)
            and len(call.args) == 1
            and not call.keywords
            and not isinstance(call.args[0], ast.Starred)
        )
        if not plain:
            self._refuse(f"`{text_of(call)}` is part of a larger expression", call)
        assert isinstance(statement, ast.Assign)
        target, given = ast.unparse(statement.targets[0]), call.args[0]
        block = free_name(self.module, "block", "each")
        checkpoint = usable(self.module, "torch.utils.checkpoint:checkpoint", call)
        again = f"{checkpoint.text}({block}, {target}, use_reentrant=False)"
        header = f"for {block} in {self.holder}:"
        if count < self.size:
            index = free_name(self.module, "index", "block")
            header = f"for {index}, {block} in enumerate({self.holder}):"
            again = f"{again} if {index} < {count} else {block}({target})"
        first: tuple[str, ...] = ()
        if ast.unparse(given) != target:
            start, end = offsets_of(self.module.source, given)
            text = self.module.source.text[start:end]
            if len(text.splitlines()) > 1 or "#" in text:
                self._refuse(f"`{text_of(call)}` goes over several lines", call)
            first = (f"{target} = {text}",)
        # The lines of the call itself are replaced, not moved.
        wrapped = [
            edit
            for edit in wrap(self.module, [statement], header, before=first)
            if not begin < self.module.source.offset(edit.span.line, edit.span.column) < end
        ]
        return (*checkpoint.edits, *wrapped, *replace(self.module, call, again))

    def _one_by_one(self, count: int) -> tuple[TextEdit, ...]:
        edits: list[TextEdit] = []
        for name in self.names[:count]:
            callee = f"{self.holder}.{name}"
            calls = self._nodes(ast.Call)
            found = [call for call in calls if ast.unparse(call.func) == callee]
            if not found and any(self._is_checkpoint(call, callee) for call in calls):
                continue
            if len(found) != 1:
                many = "more than once" if found else "in no recognised way"
                self._refuse(f"`{callee}` is called {many}", self.methods[0] if self.methods else None)
            edits += self._call(found[0], callee, "")
        return tuple(edits)

    def _call(self, call: ast.Call, block: str, condition: str) -> tuple[TextEdit, ...]:
        """Turns ``block(x)`` into ``checkpoint(block, x, use_reentrant=False)``, under a condition if one is given."""
        check_arguments(self.module, call, _OWN)
        source = self.module.source
        _, opening = offsets_of(source, call.func)
        start, end = offsets_of(source, call)
        checkpoint = usable(self.module, "torch.utils.checkpoint:checkpoint", call)
        inside = source.text[opening:end]
        if not inside.startswith("(") or not (call.args or call.keywords):
            self._refuse(f"`{text_of(call)}` is not written plainly", call)
        gap = "" if inside[1:2].isspace() else " "
        edits = [
            source.edit(source.span(start, opening + 1), f"{checkpoint.text}({block},{gap}"),
            *add_keyword(source, call, "use_reentrant=False"),
        ]
        if condition:
            plain = source.text[start:end]
            if len(plain.splitlines()) > 1:
                self._refuse(f"`{text_of(call)}` goes over several lines", call)
            around = self.module.parents.get(call)
            bare = isinstance(around, ast.Assign | ast.Return)
            edits[0] = source.edit(
                source.span(start, opening + 1), f"{'' if bare else '('}{checkpoint.text}({block},{gap}"
            )
            edits.append(
                source.edit(source.span(end, end), f" if {condition} else {plain}{'' if bare else ')'}")
            )
        return (*checkpoint.edits, *edits)

    def _nodes(self, kind: type[Node]) -> list[Node]:
        return [node for method in self.methods for node in ast.walk(method) if isinstance(node, kind)]

    def _element(self, loop: ast.For) -> tuple[str, ast.expr] | None:
        """The index, if it is counted, and the target of a block in a loop over the blocks, alone or in ``zip``.

        None for a loop over anything else.
        """
        given, target, index = loop.iter, loop.target, ""
        if isinstance(given, ast.Call) and last_name(given.func) == "enumerate" and len(given.args) == 1:
            given = given.args[0]
            if isinstance(target, ast.Tuple) and len(target.elts) == 2:
                index, target = ast.unparse(target.elts[0]), target.elts[1]
        if ast.unparse(given) == self.holder:
            return index, target
        if not isinstance(given, ast.Call) or last_name(given.func) != "zip":
            return None
        places = [place for place, each in enumerate(given.args) if ast.unparse(each) == self.holder]
        if len(places) != 1 or not isinstance(target, ast.Tuple) or len(target.elts) != len(given.args):
            return None
        return index, target.elts[places[0]]

    @staticmethod
    def _is_checkpoint(call: ast.Call, block: str, indexed: bool = False) -> bool:
        """True if a call checkpoints a block, or one that is taken from its container by index."""
        if "checkpoint" not in last_name(call.func) or not call.args:
            return False
        given = call.args[0]
        given = given.value if indexed and isinstance(given, ast.Subscript) else given
        return ast.unparse(given) == block

    def _refuse(self, message: str, node: ast.AST | None) -> NoReturn:
        raise RewriteRefused(message, file=self.module.path, line=getattr(node, "lineno", 1))


def block_calls(context: RewriteContext, blocks: Blocks) -> BlockCalls:
    """The calls of these blocks; raises RewriteRefused if they are unknown or the blocks must not run twice."""
    facts = {fact.path: fact for fact in context.profile.modules}
    parent = blocks.paths[0].rpartition(".")[0]
    names = tuple(path.rpartition(".")[2] for path in blocks.paths)
    numbered = all(name.isdigit() for name in names)
    path, reached = parent, list[str]()
    while path in facts and facts[path].class_line is None and "." in path:
        path, _, name = path.rpartition(".")
        reached.insert(0, name)
    owner = facts.get(path)
    if owner is None or owner.class_line is None:
        what = f"`{owner.class_name}`" if owner is not None else "what holds the blocks"
        message = f"The blocks are in {what}, of which no `forward` in the program's own code ran"
        raise RewriteRefused(message, file=context.profile.script)
    module, line = context.place(owner.class_line)
    forward = _function_at(module, line)
    around = module.parents.get(forward)
    if not isinstance(around, ast.ClassDef):
        raise RewriteRefused("The forward pass is not a method of a class", file=module.path, line=line)
    check_forward(context, blocks)
    first = forward.args.args[0].arg if forward.args.args else "self"
    methods = tuple(
        each
        for each in around.body
        if isinstance(each, Function) and each.name not in ("__init__", "__new__")
    )
    holder = ".".join((first, *reached))
    if numbered and not reached:
        message = f"`{owner.class_name}` is itself what holds the blocks"
        raise RewriteRefused(message, file=module.path, line=line)
    return BlockCalls(module, methods, holder, () if numbered else names, len(blocks.paths))


def _function_at(module: Module, line: int) -> Function:
    for node in module.nodes:
        if isinstance(node, Function) and line in (
            node.lineno,
            *(decorator.lineno for decorator in node.decorator_list),
        ):
            return node
    raise RewriteRefused("The forward pass was not found where it was", file=module.path, line=line)


def _below(index: str, count: int, size: int) -> str:
    return f"{index} < {count}" if count < size else ""
