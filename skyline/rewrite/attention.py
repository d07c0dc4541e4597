"""Reads attention that is written as statements: product, scaling, mask, softmax, dropout, product."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from skyline.rewrite.causal_mask import own_values
from skyline.source.arguments import qualified_name
from skyline.source.program import Module
from skyline.source.text import last_name, names_in

Statements = list[ast.stmt]


class NotAttention(Exception):
    """The code is no attention, or none that Skyline understands; the message names the obstacle."""

    def __init__(self, message: str, node: ast.AST | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.line = getattr(node, "lineno", 0)


@dataclass(slots=True)
class WrittenAttention:
    """One attention as it is written: the parts of ``scaled_dot_product_attention`` and the statements it takes.

    ``product`` is the expression to replace. ``steps`` are the statements before it that only compute its
    inputs. ``hidden`` are the conditions of masks with the values filled in, ``added`` the masks that are
    added. ``factors`` are the factors of the scores, with True for a divisor. ``batched`` is True if all
    tensors have three dimensions.
    """

    product: ast.expr
    statement: ast.stmt
    query: ast.expr
    key: ast.expr
    value: ast.expr
    key_is_transposed: bool
    batched: bool
    steps: Statements = field(default_factory=list[ast.stmt])
    hidden: list[tuple[ast.expr, ast.expr]] = field(default_factory=list[tuple[ast.expr, ast.expr]])
    added: list[ast.expr] = field(default_factory=list[ast.expr])
    factors: list[tuple[ast.expr, bool]] = field(default_factory=list[tuple[ast.expr, bool]])
    dropout: ast.Call | None = None


def read_attention(
    module: Module, softmax: ast.Call, suite: Statements, statement: ast.stmt
) -> WrittenAttention:
    """The attention around a softmax, which is in this statement of this suite.

    Raises:
        NotAttention: there is none, or Skyline does not understand it.
    """
    product, place = _product_of(module, softmax, suite, statement)
    parts = _factors_of(module, product)
    if parts is None:
        raise NotAttention("its result is in no matrix product", product)
    weights, value, batched = parts
    reader = _Reader(module, suite, place)
    after = reader.through(weights)
    if _dropped(after) is not None:
        assert isinstance(after, ast.Call)
        dropout: ast.Call | None = after
        after = reader.through(after.args[0])
    else:
        dropout = None
    after = reader.without_casts(after)
    if after is not softmax:
        raise NotAttention("something lies between the softmax and the product with the values", after)
    scores = reader.without_casts(reader.through(_argument(softmax)))
    found = WrittenAttention(product, place, scores, scores, value, False, batched, dropout=dropout)
    scores = _peeled(module, reader, scores, found)
    first = _factors_of(module, scores)
    if first is None:
        raise NotAttention("the scores are not a product of queries and keys", scores)
    found.query, key, found.batched = first[0], first[1], batched or first[2]
    found.key, found.key_is_transposed = _turned(key)
    found.steps = reader.steps
    return found


def softmax_calls(module: Module) -> list[ast.Call]:
    """Every call of a softmax over the last dimension in a file."""
    return [node for node in module.nodes if isinstance(node, ast.Call) and is_softmax(module, node)]


def is_softmax(module: Module, call: ast.Call) -> bool:
    """``F.softmax(x, dim=-1)``, ``torch.softmax(x, -1)``, ``x.softmax(-1)``, or a module ``nn.Softmax(dim=-1)``."""
    made = call.func if isinstance(call.func, ast.Call) else None
    if isinstance(call.func, ast.Attribute):
        own = own_values(module, call.func)
        made = own[0] if len(own) == 1 and isinstance(own[0], ast.Call) else None
    if made is not None and last_name(made.func) == "Softmax":
        return len(call.args) == 1 and _is_last(_given(made, 0, "dim"))
    if last_name(call.func) != "softmax":
        return False
    if qualified_name(module, call.func) in ("torch.nn.functional.softmax", "torch.softmax"):
        return bool(call.args) and _is_last(_given(call, 1, "dim"))
    return isinstance(call.func, ast.Attribute) and _is_last(_given(call, 0, "dim"))


@dataclass(slots=True)
class _Reader:
    """Follows names back to the statements of a suite that made them, and records these statements."""

    module: Module
    suite: Statements
    before: ast.stmt
    steps: Statements = field(default_factory=list[ast.stmt])

    def through(self, node: ast.expr) -> ast.expr:
        """The expression that a name stands for; if the suite did not make it, the expression as it is."""
        while isinstance(node, ast.Name):
            made = self._assignment(node.id)
            if made is None:
                return node
            self.steps.append(made)
            self.before = made
            assert made.value is not None
            node = made.value
        return node

    def without_casts(self, node: ast.expr) -> ast.expr:
        """The expression without casts such as ``.float()``: the fused operator rounds as carefully without them."""
        while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            is_cast = node.func.attr in ("float", "type_as", "contiguous") or (
                node.func.attr == "to"
                and len(node.args) == 1
                and last_name(node.args[0]) in ("dtype", "float32")
            )
            if not is_cast:
                break
            node = self.through(node.func.value)
        return node

    def _assignment(self, name: str) -> ast.Assign | ast.AnnAssign | None:
        end = next(at for at, each in enumerate(self.suite) if each is self.before)
        for each in reversed(self.suite[:end]):
            match each:
                case ast.Assign(targets=[ast.Name(id=bound)]) if bound == name:
                    return each
                case ast.AnnAssign(target=ast.Name(id=bound), value=ast.expr()) if bound == name:
                    return each
                case _ if name in bound_in(each):
                    if isinstance(each, ast.If):
                        raise NotAttention(f"`{name}` is changed under a condition", each)
                    return None
                case _:
                    continue
        return None


def bound_in(statement: ast.stmt) -> set[str]:
    """All names that a statement binds."""
    return set(names_in([statement], ast.Store, ast.Del))


def _product_of(
    module: Module, softmax: ast.Call, suite: Statements, statement: ast.stmt
) -> tuple[ast.expr, ast.stmt]:
    """The product that takes the softmax, with its statement: around it, or further down under a name."""
    around = next(
        (
            each
            for each in module.around(softmax)
            if isinstance(each, ast.expr) and _takes(module, each, softmax)
        ),
        None,
    )
    if around is not None:
        return around, statement
    name = _bound_name(statement)
    at = next(index for index, each in enumerate(suite) if each is statement)
    for each in suite[at + 1 :]:
        if not name:
            break
        uses = [node for node in ast.walk(each) if isinstance(node, ast.Name) and node.id == name]
        for use in uses:
            for node in (use, *module.around(use)):
                parent = module.parents.get(node)
                if isinstance(parent, ast.expr) and _takes(module, parent, use):
                    return parent, each
                if isinstance(node, ast.stmt):
                    break
        if name in bound_in(each):
            continue
        if uses:
            name = _bound_name(each)
    raise NotAttention("its result is in no matrix product", softmax)


def _takes(module: Module, node: ast.expr, weights: ast.AST) -> bool:
    """True if an expression is a product whose left side holds the weights."""
    parts = _factors_of(module, node)
    return parts is not None and any(each is weights for each in ast.walk(parts[0]))


def _bound_name(statement: ast.stmt) -> str:
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            return name
        case _:
            return ""


def _factors_of(module: Module, node: ast.expr) -> tuple[ast.expr, ast.expr, bool] | None:
    """The two sides of a matrix product, and whether its tensors have three dimensions."""
    match node:
        case ast.BinOp(left=left, op=ast.MatMult(), right=right):
            return left, right, False
        case ast.Call(func=ast.Attribute(attr="matmul" | "bmm" as name), args=[left, right], keywords=[]):
            return (
                (left, right, name == "bmm") if qualified_name(module, node.func) == f"torch.{name}" else None
            )
        case ast.Call(
            func=ast.Attribute(value=left, attr="matmul" | "bmm" as name), args=[right], keywords=[]
        ):
            return left, right, name == "bmm"
        case ast.Call(args=[ast.Constant(value=str() as rule), left, right]) if (
            last_name(node.func) == "einsum"
        ):
            return _einsum(rule, left, right)
        case _:
            return None


def _einsum(rule: str, left: ast.expr, right: ast.expr) -> tuple[ast.expr, ast.expr, bool] | None:
    """The sides of ``bhid,bhjd->bhij`` or ``bhij,bhjd->bhid``, in any letters; None for any other rule."""
    inputs, _, output = rule.replace(" ", "").partition("->")
    first, _, second = inputs.partition(",")
    if not (len(first) == len(second) == len(output) in (3, 4) and first[:-2] == second[:-2] == output[:-2]):
        return None
    (i, d), (j, e) = first[-2:], second[-2:]
    three = len(output) == 3
    if d == e and output[-2:] == i + j:
        turned = ast.Call(ast.Attribute(right, "transpose", ast.Load()), [_number(-2), _number(-1)], [])
        return left, ast.copy_location(turned, right), three
    return (left, right, three) if d == j and output[-2:] == i + e else None


def _number(value: int) -> ast.expr:
    return ast.UnaryOp(ast.USub(), ast.Constant(-value)) if value < 0 else ast.Constant(value)


def _peeled(module: Module, reader: _Reader, scores: ast.expr, found: WrittenAttention) -> ast.expr:
    """The product below masks and scaling. Masks and factors are recorded in ``found``."""
    while True:
        scores = reader.without_casts(reader.through(scores))
        match scores:
            case ast.Call(func=ast.Attribute(value=inner, attr="masked_fill"), args=[condition, filling]):
                found.hidden.append((condition, filling))
                scores = inner
            case ast.Call(args=[condition, inner, filling]) if (
                qualified_name(module, scores.func) == "torch.where"
            ):
                found.hidden.append((ast.UnaryOp(ast.Not(), condition), filling))
                scores = inner
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                if found.factors:
                    raise NotAttention("a mask is added before the scores are scaled", scores)
                # The scores are the side that leads back to a product.
                swap = not _is_scores(module, reader, left) and _is_scores(module, reader, right)
                scores, mask = (right, left) if swap else (left, right)
                found.added.append(mask)
            case ast.BinOp(left=left, op=ast.Mult(), right=right):
                swap = not _is_scores(module, reader, left) and _is_scores(module, reader, right)
                scores, factor = (right, left) if swap else (left, right)
                found.factors.append((factor, False))
            case ast.BinOp(left=left, op=ast.Div(), right=right):
                scores = left
                found.factors.append((right, True))
            case _:
                return scores


def _is_scores(module: Module, reader: _Reader, node: ast.expr) -> bool:
    """True if an expression leads to a product; looks ahead without recording the steps."""
    looking = _Reader(module, reader.suite, reader.before)
    node = looking.without_casts(looking.through(node))
    match node:
        case ast.BinOp(left=left, op=ast.Add() | ast.Mult() | ast.Div(), right=right):
            return _is_scores(module, looking, left) or _is_scores(module, looking, right)
        case ast.Call(func=ast.Attribute(value=inner, attr="masked_fill")):
            return _is_scores(module, looking, inner)
        case _:
            return _factors_of(module, node) is not None


def _turned(key: ast.expr) -> tuple[ast.expr, bool]:
    """The keys before their transposition, and True; else the expression as it is, and False."""
    match key:
        case ast.Call(func=ast.Attribute(value=inner, attr="transpose"), args=[one, other]):
            pair = sorted((_integer(one), _integer(other)), key=lambda each: (each is None, each))
            if pair in ([-2, -1], [2, 3], [1, 2]):
                return inner, True
        case ast.Call(func=ast.Attribute(value=inner, attr="permute"), args=[_, _, _, _]):
            if [_integer(each) for each in key.args] == [0, 1, 3, 2]:
                return inner, True
        case ast.Attribute(value=inner, attr="mT"):
            return inner, True
        case _:
            pass
    return key, False


def _dropped(node: ast.expr) -> ast.Call | None:
    """A call of dropout: a module whose name says so, or the function."""
    if not isinstance(node, ast.Call) or not node.args:
        return None
    return node if "drop" in last_name(node.func).lower() else None


def _argument(softmax: ast.Call) -> ast.expr:
    # ``x.softmax(-1)``, ``x.softmax(dim=-1)``
    is_method = last_name(softmax.func) == "softmax" and (
        not softmax.args or _integer(softmax.args[0]) is not None
    )
    return softmax.func.value if is_method and isinstance(softmax.func, ast.Attribute) else softmax.args[0]


def _given(call: ast.Call, position: int, name: str) -> ast.expr | None:
    keyword = next((each.value for each in call.keywords if each.arg == name), None)
    return keyword or (call.args[position] if position < len(call.args) else None)


def _is_last(node: ast.expr | None) -> bool:
    return node is not None and _integer(node) == -1


def _integer(node: ast.expr) -> int | None:
    match node:
        case ast.Constant(value=int() as value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() as value)):
            return -value
        case _:
            return None
