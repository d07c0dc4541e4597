"""Arguments of calls: sets, adds or removes one that is written in the call, missing, or in a mapping."""

from __future__ import annotations

import ast
import re
import tokenize

from skyline.errors import RewriteRefused
from skyline.lazy_dataclass import dataclass
from skyline.rewrite.blocks import remove, replace, statement_of
from skyline.rewrite.context import RewriteContext, refusal
from skyline.rewrite.element import without_item, without_keyword
from skyline.rewrite.sites.given import behind, decided_by, mapping_items
from skyline.source.arguments import passed
from skyline.source.knob import KnobKind
from skyline.source.mapping import holds
from skyline.source.origin import Frame, Route
from skyline.source.program import Module
from skyline.source.text import SourceText, TextEdit, offsets_of, text_of

_NAMES = (ast.Name, ast.Attribute, ast.Subscript)


def literal_given(
    context: RewriteContext, module: Module, call: ast.Call, name: str, position: int | None = None
) -> object:
    """The literal that decides an argument. None if the argument is missing or is no literal."""
    try:
        found = decided_by(context, module, call, name, position)
    except RewriteRefused:
        return None
    return found[1].value if found is not None and isinstance(found[1], ast.Constant) else None


def as_value(literal: object) -> str | None:
    """The value of a what-if for a literal: ``on`` for True, None for a switch that is off."""
    if literal is True:
        return "on"
    if literal is None or literal is False:
        return None
    return str(literal)


def without_argument(
    context: RewriteContext,
    module: Module,
    call: ast.Call,
    name: str,
    *,
    off: str,
    position: int | None = None,
) -> tuple[TextEdit, ...]:
    """The edits that remove an argument. A literal in a variable or an option becomes ``off`` instead.

    Raises:
        RewriteRefused: the deciding value has other uses, is computed, or is set on the command line.
    """
    keyword = keyword_of(call, name)
    if keyword is not None and not isinstance(keyword.value, _NAMES):
        return without_keyword(module, keyword)
    given = passed(call, name, position).value
    if given is None:
        items = mapping_items(module, name)
        if len(items) == 1 and behind(context, module, call, name, position) is not None:
            return _without_mapping_item(module, *items[0])
    try:
        decided = decided_by(context, module, call, name, position)
    except RewriteRefused as refused:
        if not refused.hint:
            refused.hint = f"Set it to {off} there."
        raise
    if decided is None:
        message = f"`{text_of(call.func)}` is not given `{name}`"
        raise refusal(message, module, call, hint="There is nothing to remove.")
    return set_literal(*decided, name, off)


def _without_mapping_item(
    module: Module, holder: ast.Dict | ast.Call | ast.Subscript, key: ast.expr | None, value: ast.expr
) -> tuple[TextEdit, ...]:
    if isinstance(holder, ast.Dict):
        assert key is not None
        return without_item(module, key, value)
    if isinstance(holder, ast.Call):
        keyword = next(each for each in holder.keywords if each.value is value)
        return without_keyword(module, keyword)
    return remove(module, statement_of(module, holder))


_INSIGNIFICANT = {tokenize.NL, tokenize.NEWLINE, tokenize.COMMENT, tokenize.INDENT, tokenize.DEDENT}


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    start: int
    end: int
    significant: bool


def keyword_of(call: ast.Call, name: str) -> ast.keyword | None:
    """The keyword argument of this name."""
    return next((keyword for keyword in call.keywords if keyword.arg == name), None)


def is_off(node: ast.expr) -> bool:
    """True for a literal None or False."""
    return isinstance(node, ast.Constant) and node.value in (None, False)


def replace_value(source: SourceText, node: ast.expr | ast.keyword, text: str) -> TextEdit:
    """The edit that replaces an expression or a ``name=value``; brackets around it stay."""
    start, end = offsets_of(source, node)
    return source.edit(source.span(start, end), text)


def add_keyword(source: SourceText, call: ast.Call, text: str) -> tuple[TextEdit, ...]:
    """The edits that add ``name=value`` as the last argument of a call, before any ``**mapping``.

    A call with one argument per line gets a new line. Several additions to one call can be combined.
    """
    start, end = offsets_of(source, call)
    if not (call.args or call.keywords):
        raise refusal(f"`{text_of(call)}` is called without any argument", source, call)
    if any(isinstance(argument, ast.GeneratorExp) for argument in call.args) and len(call.args) == 1:
        message = f"`{text_of(call)}` takes a bare generator, to which no argument can be added"
        raise refusal(message, source, call)
    spread = next((keyword for keyword in call.keywords if keyword.arg is None), None)
    if spread is not None:
        place, _ = offsets_of(source, spread)
        return (_insert(source, place, f"{text},{_gap(source, place)}"),)
    tokens = [token for token in _tokens(source, start, end) if token.start >= _function_end(source, call)]
    last = [token for token in tokens if token.significant][-2]  # before the closing bracket
    return _after(source, tokens, last, end - 1, text)


def _after(
    source: SourceText, tokens: list[_Token], last: _Token, closing: int, text: str
) -> tuple[TextEdit, ...]:
    comma = last.text == ","
    final = [token for token in tokens if token.significant][-3] if comma else last
    closing_line, _ = source.position(closing)
    line, _ = source.position(last.end)
    if closing_line == line:
        return (_insert(source, last.end, f" {text}," if comma else f", {text}"),)
    start_line = _first_line_of_argument(source, tokens, final)
    indent = re.match(r"[ \t\f]*", source.line(start_line))
    break_and_indent = source.newline_after(line) + (indent.group() if indent else "")
    comment = any(
        not token.significant and token.text.startswith("#") and token.start > last.end
        for token in tokens
        if source.position(token.start)[0] == line
    )
    if not comment:
        return (
            _insert(
                source, last.end, f"{break_and_indent}{text}," if comma else f",{break_and_indent}{text}"
            ),
        )
    # The comment belongs to the argument before it: the new line comes after both.
    behind = source.offset(line, len(source.line(line)))
    added = _insert(source, behind, f"{break_and_indent}{text},")
    return (added,) if comma else (_insert(source, last.end, ","), added)


def _first_line_of_argument(source: SourceText, tokens: list[_Token], final: _Token) -> int:
    """The line on which the last argument starts; the new argument gets its indentation."""
    depth, line = 0, source.position(final.start)[0]
    significant = [token for token in tokens if token.significant and token.end <= final.end]
    for token in reversed(significant):
        depth += (token.text in (")", "]", "}")) - (token.text in ("(", "[", "{"))
        if depth < 0 or (depth == 0 and token.text == ","):
            break
        line = source.position(token.start)[0]
    return line


def _gap(source: SourceText, place: int) -> str:
    """The separator between a new argument and this one: a line break if this one starts its line."""
    line, column = source.position(place)
    before = source.line(line)[:column]
    return source.newline_after(line - 1) + before if not before.strip() and column else " "


def _function_end(source: SourceText, call: ast.Call) -> int:
    return offsets_of(source, call.func)[1]


def _insert(source: SourceText, place: int, text: str) -> TextEdit:
    return source.edit(source.span(place, place), text)


def _tokens(source: SourceText, start: int, end: int) -> list[_Token]:
    """The tokens of a call, by position in the whole text."""
    line, _ = source.position(start)
    # In brackets the tokenizer needs no indentation; blanks keep the columns of the first line.
    piece = source.text[start:end]
    lines = iter([each for each in re.split(r"(?<=\n)|(?<=\r)(?!\n)", piece) if each])
    starts = [start]
    for each in re.split(r"(?<=\n)|(?<=\r)(?!\n)", piece):
        starts.append(starts[-1] + len(each))
    tokens: list[_Token] = []
    try:
        for token in tokenize.generate_tokens(
            lambda: next(lines, "").replace("\r\n", "\n").replace("\r", "\n")
        ):
            begin = starts[token.start[0] - 1] + token.start[1]
            finish = starts[token.end[0] - 1] + token.end[1]
            if finish <= end and token.string.strip():
                tokens.append(_Token(token.string, begin, finish, token.type not in _INSIGNIFICANT))
    except (tokenize.TokenError, IndentationError, IndexError) as error:
        raise RewriteRefused(
            "The parts of the call cannot be identified", file=source.path, line=line
        ) from error
    return tokens


def set_argument(
    context: RewriteContext,
    module: Module,
    call: ast.Call,
    name: str,
    text: str,
    *,
    position: int | None = None,
) -> tuple[TextEdit, ...]:
    """The edits that set ``name=text``; ``position`` is the place of an argument given without its name.

    A literal that is there is changed in place. Refused if the value is computed when the script runs, or if
    a mapping that is spread into the call sets it or may set it.
    """
    given = passed(call, name, position)
    if given.value is not None:
        return set_literal(module, given.value, name, text)
    frame, route = Frame(module, module.scope(call)), Route(KnobKind.CALL_ARGUMENT, name)
    for mapping in given.mappings:
        held = holds(context.resolver, mapping, frame, name, route)
        if held is not False:
            message = f"`**{text_of(mapping)}` {'sets' if held else 'may set'} `{name}`"
            raise refusal(message, module, call, hint="Change it there.")
    if not call.args and not call.keywords:
        _, end = offsets_of(module.source, call)
        return (module.source.edit(module.source.span(end - 1, end - 1), f"{name}={text}"),)
    return add_keyword(module.source, call, f"{name}={text}")


def set_literal(module: Module, node: ast.expr, name: str, text: str) -> tuple[TextEdit, ...]:
    """The edits that replace a literal, none if it has the value; refused if the value is no literal."""
    if not isinstance(node, ast.Constant):
        message = f"`{name}={text_of(node)}` is computed when the script runs"
        raise refusal(message, module, node, hint=f"Set it to {text} there.")
    wanted = ast.literal_eval(text)
    if node.value == wanted and type(node.value) is type(wanted):
        return ()
    return replace(module, node, text)
