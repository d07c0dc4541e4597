"""Replaces attention that is written out by ``scaled_dot_product_attention``."""

from __future__ import annotations

import ast

from skyline.errors import RewriteRefused
from skyline.rewrite.attention import NotAttention, WrittenAttention, bound_in, read_attention, softmax_calls
from skyline.rewrite.blocks import replace, statement_of, suite_of
from skyline.rewrite.causal_mask import is_causal, own_values
from skyline.rewrite.context import RewriteContext, refusal
from skyline.rewrite.imports import usable
from skyline.rewrite.unwrapping import without_statements
from skyline.source.arguments import qualified_name
from skyline.source.program import Module
from skyline.source.text import Function, TextEdit, dotted, last_name, offsets_of, text_of

NAME = "sdpa"
ORDER = 30
_FUSED = "torch.nn.functional.scaled_dot_product_attention"
_SNIPPET = (
    "y = torch.nn.functional.scaled_dot_product_attention(\n"
    "    q, k, v, is_causal=True, dropout_p=dropout if self.training else 0.0\n)"
)


def rewrite(context: RewriteContext, value: str) -> tuple[TextEdit, ...]:
    """Replaces each attention that the run showed, or that the program contains, by one call."""
    if value.lower() not in ("", "true", "1", "yes", "on"):
        raise RewriteRefused(f"{value!r} is not a value for sdpa", hint="Give the name without a value.")
    sites = _softmaxes(context)
    edits: list[TextEdit] = []
    problems: list[RewriteRefused] = []
    for module, softmax, dimensions in sites:
        statement = statement_of(module, softmax)
        try:
            found = read_attention(module, softmax, suite_of(module, statement), statement)
            found.batched |= dimensions == 3
            edits += _edits(module, found)
        except NotAttention as problem:
            message = f"The softmax is not rewritten: {problem.message}"
            line = problem.line or softmax.lineno
            problems.append(RewriteRefused(message, file=module.path, line=line, snippet=_SNIPPET))
        except RewriteRefused as problem:
            problem.snippet = problem.snippet or _SNIPPET
            problems.append(problem)
    if problems and (not edits or _was_seen(context)):
        raise problems[0]
    if not edits and not _fused_calls(context):
        raise RewriteRefused(
            "No hand-written attention was found", file=context.profile.script, snippet=_SNIPPET
        )
    return tuple(edits)


def present(context: RewriteContext) -> str | None:
    """``on`` if the program calls the fused operator."""
    return "on" if _fused_calls(context) else None


def remove(context: RewriteContext) -> tuple[TextEdit, ...]:
    """Always refused: the call does not show how the attention was written out."""
    module, call = _fused_calls(context)[0]
    message = "The call that replaced the attention does not contain its written form"
    raise refusal(message, module, call, hint="Write the products, the mask and the softmax there by hand.")


def _softmaxes(context: RewriteContext) -> list[tuple[Module, ast.Call, int]]:
    """The softmax calls on lines that ran one over pairs of positions, with the dimensions of the scores.

    All calls, with 0 dimensions, if no such line is known.
    """
    trace = context.profile.trace
    lines: dict[int, int] = {}
    for record in trace.records:
        if (
            "softmax" in record.name
            and "log_softmax" not in record.name
            and min(record.line, record.shape) >= 0
        ):
            sizes = trace.shapes[record.shape].inputs
            if sizes and len(sizes[0]) in (3, 4):
                lines[record.line] = len(sizes[0])
    everywhere = [(module, call, 0) for module in context.program.modules for call in softmax_calls(module)]
    seen: list[tuple[Module, ast.Call, int]] = []
    for number, dimensions in sorted(lines.items()):
        try:
            module, line = context.place(trace.lines[number])
        except RewriteRefused:
            continue
        on_line = [call for call in softmax_calls(module) if call.lineno <= line <= (call.end_lineno or line)]
        seen += [(module, call, dimensions) for call in on_line]
    return seen or everywhere


def _was_seen(context: RewriteContext) -> bool:
    return any("softmax" in record.name for record in context.profile.trace.records)


def _fused_calls(context: RewriteContext) -> list[tuple[Module, ast.Call]]:
    return context.program.calls_of("scaled_dot_product_attention")


def _edits(module: Module, found: WrittenAttention) -> tuple[TextEdit, ...]:
    _check_uses(module, found)
    fused = usable(module, _FUSED, at=found.product)
    parts = [_source(module, found.query), _key(module, found), _source(module, found.value)]
    if found.batched:
        parts = [f"{_operand(part)}.unsqueeze(0)" for part in parts]
    parts += _mask(module, found)
    if found.dropout is not None:
        parts.append(f"dropout_p={_dropout(module, found.dropout)}")
    parts += _scale(module, found)
    text = f"{fused.text}({', '.join(parts)})" + (".squeeze(0)" if found.batched else "")
    going = without_statements(module, found.steps)
    return (*fused.edits, *replace(module, found.product, text), *going)


def _operand(text: str) -> str:
    plain = text.replace(".", "").replace("_", "").isalnum()
    return text if plain or (text.endswith(")") and not text.startswith("(")) else f"({text})"


def _key(module: Module, found: WrittenAttention) -> str:
    text = _source(module, found.key)
    if found.key_is_transposed:
        return text
    plain = isinstance(found.key, ast.Name | ast.Attribute | ast.Call | ast.Subscript)
    return f"{text if plain else f'({text})'}.transpose(-2, -1)"


def _mask(module: Module, found: WrittenAttention) -> list[str]:
    masks = len(found.hidden) + len(found.added)
    if not masks:
        return []
    if masks > 1:
        raise NotAttention("there is more than one mask", found.product)
    if found.added:
        return [f"attn_mask={_source(module, found.added[0])}"]
    condition, filling = found.hidden[0]
    causal = is_causal(module, condition)
    if causal and _is_least(filling):
        return ["is_causal=True"]
    if not _is_infinite(filling):
        raise NotAttention(f"hidden scores are set to `{text_of(filling)}`, not to minus infinity", filling)
    return [f"attn_mask={_kept(module, condition)}"]


def _kept(module: Module, condition: ast.expr) -> str:
    """The mask of allowed positions: the inverse of the positions that are filled."""
    match condition:
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            return _source(module, inner)
        case ast.UnaryOp(op=ast.Invert(), operand=inner):
            return _source(module, inner)
        case ast.Compare(left=left, ops=[ast.Eq()], comparators=[right]):
            return f"{_source(module, left)} != {_source(module, right)}"
        case ast.Compare(left=left, ops=[ast.NotEq()], comparators=[right]):
            return f"{_source(module, left)} == {_source(module, right)}"
        case ast.Name() | ast.Attribute() | ast.Call() | ast.Subscript():
            return f"{_source(module, condition)}.logical_not()"
        case _:
            return f"({_source(module, condition)}).logical_not()"


def _dropout(module: Module, call: ast.Call) -> str:
    """The dropout probability as the code has it, 0 in evaluation."""
    if qualified_name(module, call.func) in ("torch.nn.functional.dropout", "torch.dropout"):
        given = {each.arg: each.value for each in call.keywords}
        rate = given.get("p") or (call.args[1] if len(call.args) > 1 else None)
        training = given.get("training") or (call.args[2] if len(call.args) > 2 else None)
        probability = _source(module, rate) if rate is not None else "0.5"
        return probability if training is None else f"{probability} if {_source(module, training)} else 0.0"
    made = own_values(module, call.func)
    if len(made) == 1 and isinstance(made[0], ast.Call) and last_name(made[0].func) == "Dropout":
        name = dotted(call.func)
        return f"{name}.p if {name.partition('.')[0]}.training else 0.0"
    raise NotAttention(f"the dropout probability of `{text_of(call.func)}` is unknown", call)


def _scale(module: Module, found: WrittenAttention) -> list[str]:
    if not found.factors:
        return ["scale=1.0"]
    if len(found.factors) > 1:
        raise NotAttention("the scores are scaled more than once", found.product)
    factor, divided = found.factors[0]
    if _is_usual(module, factor, divided, found):
        return []
    if not _is_number(module, factor):
        raise NotAttention(f"`{text_of(factor)}` is not known to be a plain number", factor)
    text = _source(module, factor)
    simple = isinstance(factor, ast.Name | ast.Attribute | ast.Constant | ast.Call)
    return [f"scale=1.0 / {text if simple else f'({text})'}" if divided else f"scale={text}"]


def _is_usual(module: Module, factor: ast.expr, divided: bool, found: WrittenAttention) -> bool:
    """True if scores are divided by the square root of the width of a head, which is the default."""
    root = factor
    if not divided:
        match factor:
            case ast.BinOp(left=ast.Constant(value=1), op=ast.Div(), right=inner):
                root = inner
            case ast.BinOp(
                left=base, op=ast.Pow(), right=ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=0.5))
            ):
                return _is_width(module, base, found)
            case _:
                return False
    match root:
        case ast.Call(args=[base]) if qualified_name(module, root.func) in ("math.sqrt", "numpy.sqrt"):
            return _is_width(module, base, found)
        case ast.BinOp(left=base, op=ast.Pow(), right=ast.Constant(value=0.5)):
            return _is_width(module, base, found)
        case _:
            return False


def _is_width(module: Module, node: ast.expr, found: WrittenAttention) -> bool:
    """True for ``k.size(-1)`` or ``k.shape[-1]`` of the queries or of keys that are not written transposed."""
    owners = {ast.dump(found.query)}
    if found.key_is_transposed:
        owners.add(ast.dump(found.key))
    match node:
        case ast.Call(func=ast.Attribute(value=owner, attr="size"), args=[last]):
            return ast.dump(owner) in owners and text_of(last) == "-1"
        case ast.Subscript(value=ast.Attribute(value=owner, attr="shape"), slice=last):
            return ast.dump(owner) in owners and text_of(last) == "-1"
        case ast.Name(id=name):
            made = _assigned(module, node, name)
            return len(made) == 1 and _is_width(module, made[0], found)
        case _:
            return False


def _is_number(module: Module, node: ast.expr) -> bool:
    """True if an expression is a plain Python number, as ``scale`` has to be."""
    match node:
        case ast.Constant(value=int() | float()):
            return True
        case ast.BinOp(left=left, right=right):
            return _is_number(module, left) and _is_number(module, right)
        case ast.UnaryOp(operand=inner):
            return _is_number(module, inner)
        case ast.Call(func=ast.Attribute(attr="size"), args=[_]):
            return True
        case ast.Subscript(value=ast.Attribute(attr="shape")):
            return True
        case ast.Call(args=[inner]):
            name = qualified_name(module, node.func)
            return name in ("math.sqrt", "numpy.sqrt", "float", "int") and _is_number(module, inner)
        case ast.Name(id=name):
            made = _assigned(module, node, name)
            return len(made) == 1 and _is_number(module, made[0])
        case ast.Attribute():
            made = own_values(module, node)
            return len(made) == 1 and _is_plain(made[0])
        case _:
            return False


def _is_plain(node: ast.expr) -> bool:
    """True if the value that a constructor gives to an attribute is arithmetic and no tensor."""
    for each in ast.walk(node):
        if isinstance(each, ast.Call) and last_name(each.func) not in ("sqrt", "float", "int", "pow"):
            return False
        if isinstance(each, ast.Attribute) and each.attr in ("tensor", "Parameter"):
            return False
        if isinstance(each, ast.Name) and each.id in ("torch", "nn"):
            return False
    return True


def _assigned(module: Module, at: ast.AST, name: str) -> list[ast.expr]:
    function = next((each for each in module.around(at) if isinstance(each, Function)), None)
    if function is None:
        return []
    return [
        each.value
        for each in ast.walk(function)
        if isinstance(each, ast.Assign)
        and any(isinstance(target, ast.Name) and target.id == name for target in each.targets)
    ]


def _is_infinite(node: ast.expr) -> bool:
    match node:
        case ast.Call(func=ast.Name(id="float"), args=[ast.Constant(value=str() as text)]):
            return text.replace(" ", "").lower() in ("-inf", "-infinity")
        case ast.UnaryOp(
            op=ast.USub(), operand=ast.Call(func=ast.Name(id="float"), args=[ast.Constant(value="inf")])
        ):
            return True
        case ast.UnaryOp(op=ast.USub(), operand=ast.Attribute(attr="inf")):
            return True
        case _:
            return False


def _is_least(node: ast.expr) -> bool:
    """True for minus infinity, or a number that a softmax turns into 0; each row keeps its own position."""
    if _is_infinite(node) or (isinstance(node, ast.Attribute) and node.attr == "min"):
        return True
    match node:
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as size)):
            return size >= 1e4
        case _:
            return False


def _check_uses(module: Module, found: WrittenAttention) -> None:
    """Refuses if anything else needs a step, or if code in between changes an input of the call."""
    function = next((each for each in module.around(found.product) if isinstance(each, Function)), None)
    if function is None:
        raise NotAttention("it stands outside of any function", found.product)
    taken = {id(node) for step in (*found.steps, found.product) for node in ast.walk(step)}
    names = {name for step in found.steps for name in bound_in(step)}
    suite = suite_of(module, found.statement)
    places = {id(each): at for at, each in enumerate(suite)}
    first = min((places[id(step)] for step in found.steps), default=places[id(found.statement)])
    rebound = {name for each in suite[places[id(found.statement)] :] for name in bound_in(each)}
    for node in ast.walk(function):
        if not isinstance(node, ast.Name) or node.id not in names or id(node) in taken:
            continue
        if isinstance(node.ctx, ast.Load) and _reads_step(module, node, found, suite, places, rebound):
            message = f"the weights are used on line {node.lineno} as well"
            raise NotAttention(message, node)
    moved = [found.query, found.key, *found.added, *(each for each, _ in (*found.hidden, *found.factors))]
    read = _names_in(*moved)
    if (read | _names_in(found.value)) & names:
        raise NotAttention(
            f"`{min((read | _names_in(found.value)) & names)}` is assigned again in between", found.product
        )
    for each in suite[first : places[id(found.statement)]]:
        if not any(each is step for step in found.steps) and bound_in(each) & read:
            raise NotAttention(f"`{min(bound_in(each) & read)}` is assigned again in between", each)


def _names_in(*parts: ast.expr) -> set[str]:
    return {node.id for part in parts for node in ast.walk(part) if isinstance(node, ast.Name)}


def _reads_step(
    module: Module,
    node: ast.Name,
    found: WrittenAttention,
    suite: list[ast.stmt],
    places: dict[int, int],
    rebound: set[str],
) -> bool:
    """True if a name may read a step's result: it is behind the first step and not assigned in between."""
    chain = [node, *module.around(node)]
    at = next((places[id(each)] for each in chain if id(each) in places), None)
    first = min(places[id(step)] for step in found.steps)
    if at is None:
        # Another branch of the function: it comes after this block has ended.
        return node.lineno > suite[-1].lineno and node.id not in rebound
    if at < first:
        return False
    if at == first and any(id(each) == id(suite[first]) for each in chain):
        return False
    between = suite[places[id(found.statement)] : at]
    return not any(node.id in bound_in(each) for each in between)


def _source(module: Module, node: ast.expr) -> str:
    if not hasattr(node, "end_col_offset") or any(
        not hasattr(each, "lineno") for each in ast.walk(node) if isinstance(each, ast.expr)
    ):
        return ast.unparse(node)
    start, end = offsets_of(module.source, node)
    return module.source.text[start:end]
