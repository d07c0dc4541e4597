"""All later uses of the trained model in the program, under all its names."""

from __future__ import annotations

import ast

from skyline.errors import RewriteRefused
from skyline.lazy_dataclass import dataclass
from skyline.rewrite.blocks import statement_of
from skyline.rewrite.context import RewriteContext, refusal
from skyline.rewrite.sites.iteration import ROUTE
from skyline.rewrite.sites.model import ModelSite
from skyline.source.arguments import call_sites, is_method, passed, position_of
from skyline.source.origin import ClassFound, Frame, FunctionFound, Instance
from skyline.source.program import Module
from skyline.source.scope import NameScope, own_scope
from skyline.source.text import Function, dotted, text_of

_LIMIT = 60
_CONTAINERS = (ast.Dict, ast.List, ast.Set, ast.Tuple, ast.Starred, ast.Yield, ast.Await, ast.Lambda)


@dataclass(frozen=True, slots=True, eq=False)
class Holder:
    """A name for the model: ``text`` in ``scope``, after ``since`` (None: everywhere).

    ``function`` is the function whose parameter it is, if any. For ``self.model`` the scope is the scope of
    the class.
    """

    module: Module
    scope: NameScope
    text: str
    since: ast.stmt | None = None
    function: Function | None = None


@dataclass(frozen=True, slots=True, eq=False)
class ModelUse:
    """One expression that is the model. ``handed_to`` is the library call that takes it as an argument."""

    holder: Holder
    node: ast.expr
    handed_to: ast.Call | None = None

    @property
    def module(self) -> Module:
        """The file of the expression."""
        return self.holder.module

    @property
    def parent(self) -> ast.AST:
        """The expression or statement around the model."""
        return self.module.parents[self.node]

    @property
    def is_forward(self) -> bool:
        """True if the model is called."""
        return isinstance(self.parent, ast.Call) and self.parent.func is self.node


def model_uses(context: RewriteContext, site: ModelSite) -> tuple[ModelUse, ...]:
    """All uses of the model after its site.

    Raises:
        RewriteRefused: the model is put into a container, or cannot be followed.
    """
    search = _Search(context)
    search.name(site.module, ast.parse(site.text, mode="eval").body, site.statement)
    return search.run()


class _Search:
    def __init__(self, context: RewriteContext) -> None:
        self._context = context
        self._waiting: list[Holder] = []
        self._known: set[tuple[str, int, str]] = set()
        self._uses: dict[int, ModelUse] = {}

    def run(self) -> tuple[ModelUse, ...]:
        while self._waiting:
            holder = self._waiting.pop(0)
            for node in _reads(holder):
                if id(node) not in self._uses:
                    self._uses[id(node)] = ModelUse(holder, node, self._follow(holder.module, node))
        return tuple(self._uses.values())

    def name(self, module: Module, target: ast.expr, since: ast.stmt) -> None:
        """Adds another name for the model, which ``since`` binds."""
        text, at = dotted(target), module.scope(since)
        if isinstance(target, ast.Attribute) and text.count(".") == 1 and text.startswith("self."):
            around = next((each for each in module.around(since) if isinstance(each, ast.ClassDef)), None)
            if around is not None:
                _check_reached_from_inside(self._context, around, text)
                self._add(Holder(module, own_scope(module.scopes, around), text, since))
                return
        found = at.lookup(text) if text and "." not in text else None
        if found is None:
            raise refusal(f"`{text_of(target)}` is bound to the model, and cannot be followed", module, since)
        self._add(Holder(module, found[0], text, since))

    def _add(self, holder: Holder) -> None:
        key = (holder.module.path, id(holder.scope), holder.text)
        if key in self._known:
            return
        if len(self._known) >= _LIMIT:
            raise RewriteRefused("The model has too many names to follow", file=holder.module.path)
        self._known.add(key)
        self._waiting.append(holder)

    def _follow(self, module: Module, node: ast.expr) -> ast.Call | None:
        """Adds the names that the model gets here; returns the library call that it is passed to."""
        parent = module.parents[node]
        match parent:
            case ast.Call() if parent.func is not node:
                return self._handed(module, node, parent)
            case ast.keyword():
                call = module.parents[parent]
                return self._handed(module, node, call) if isinstance(call, ast.Call) else None
            case ast.Assign(value=value) if value is node:
                for target in parent.targets:
                    self.name(module, target, parent)
            case ast.AnnAssign(value=value, target=target) if value is node:
                self.name(module, target, parent)
            case ast.Return():
                self._returned(module, parent, None)
            case ast.Tuple() if isinstance(module.parents[parent], ast.Return):
                self._returned(module, parent, parent.elts.index(node))
            case _ if isinstance(parent, (*_CONTAINERS, ast.NamedExpr)):
                raise refusal(
                    f"The model goes into `{text_of(parent)}`, and cannot be followed", module, node
                )
            case _:
                pass
        return None

    def _handed(self, module: Module, node: ast.expr, call: ast.Call) -> ast.Call | None:
        functions = self._functions(module, call)
        for where, function in functions:
            bound = is_method(where, function)
            parameters = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
            for each in parameters:
                if passed(call, each.arg, position_of(function, each.arg, bound=bound)).value is node:
                    scope = own_scope(where.scopes, function)
                    self._add(Holder(where, scope, each.arg, function=function))
                    break
            else:
                message = f"`{text_of(call)}` takes the model in a way that cannot be followed"
                raise refusal(message, module, call)
        return None if functions else call

    def _functions(self, module: Module, call: ast.Call) -> list[tuple[Module, Function]]:
        """The functions that a call runs: for a class its constructor, for an object its ``forward``."""
        found: list[tuple[Module, Function]] = []
        for each in self._context.resolver.meant(call.func, Frame(module, module.scope(call)), ROUTE):
            match each:
                case FunctionFound():
                    found.append((each.module, each.node))
                case ClassFound():
                    found += _methods(each, "__init__")
                case Instance():
                    found += _methods(each.of, "forward") or _methods(each.of, "__call__")
                case _:
                    continue
        return found

    def _returned(self, module: Module, at: ast.AST, index: int | None) -> None:
        function = next((each for each in module.around(at) if isinstance(each, Function)), None)
        for site in call_sites(self._context.program, module, function) if function else ():
            statement = statement_of(site.module, site.call)
            if isinstance(statement, ast.Expr) and statement.value is site.call:
                continue
            target = statement.targets[0] if isinstance(statement, ast.Assign) else None
            direct = isinstance(statement, ast.Assign) and statement.value is site.call
            if direct and index is not None and isinstance(target, ast.Tuple) and index < len(target.elts):
                target = target.elts[index]
            elif index is not None or not direct:
                target = None
            if target is None:
                message = f"`{text_of(site.call)}` returns the model, which cannot be followed from there"
                raise refusal(message, site.module, site.call, hint="Assign it to a name.")
            self.name(site.module, target, statement)


def _methods(found: ClassFound, name: str) -> list[tuple[Module, Function]]:
    return [
        (found.module, each) for each in found.node.body if isinstance(each, Function) and each.name == name
    ]


def _reads(holder: Holder) -> list[ast.expr]:
    """The expressions that read the name while it stands for the model."""
    module, found = holder.module, list[ast.expr]()
    for node in module.nodes:
        if isinstance(node, ast.Name) and node.id == holder.text and isinstance(node.ctx, ast.Load):
            known = module.scope(node).lookup(node.id)
            if known is None or known[0] is not holder.scope:
                continue
        elif (
            isinstance(node, ast.Attribute) and dotted(node) == holder.text and isinstance(node.ctx, ast.Load)
        ):
            if holder.scope.node not in module.around(node):
                continue
        else:
            continue
        if not _is_before(module, node, holder.since):
            found.append(node)
    return found


def _is_before(module: Module, node: ast.expr, since: ast.stmt | None) -> bool:
    """True if an expression is evaluated before the model gets this name, or in the statement that names it."""
    if since is None or module.scope(node) is not module.scope(since):
        return False
    return (node.lineno, node.col_offset) < (since.end_lineno or since.lineno, since.end_col_offset or 0)


def _check_reached_from_inside(context: RewriteContext, owner: ast.ClassDef, text: str) -> None:
    """Refuses ``trainer.model.x`` and ``trainer.model(x)``: only the run could tell which object that is."""
    name = text.removeprefix("self.")
    for module, node in context.program.nodes_of(ast.Attribute):
        if node.attr != name or dotted(node) == text or isinstance(node.ctx, ast.Store):
            continue
        parent = module.parents[node]
        used = isinstance(parent, ast.Attribute) or (isinstance(parent, ast.Call) and parent.func is node)
        if used and owner not in module.around(node):
            raise refusal(f"`{text_of(node)}` may be the model of {owner.name}", module, node)
