"""Changes the number of threads of operators on the processor."""

from __future__ import annotations

import ast

from skyline.rewrite.argument import set_literal
from skyline.rewrite.context import RewriteContext, refusal, whole_number
from skyline.rewrite.sites.start import at_start, calls_of, without_calls
from skyline.source.arguments import passed
from skyline.source.text import TextEdit, text_of

NAME = "cpu_threads"
_CALL = "torch.set_num_threads"


def snippet(value: str) -> str:
    """One line near the start of the script."""
    return f"torch.set_num_threads({value or 'N'})\n"


def rewrite(context: RewriteContext, value: str) -> tuple[TextEdit, ...]:
    """Changes the call of ``torch.set_num_threads(N)`` that is there, or adds one where the script starts."""
    threads = whole_number(NAME, value)
    calls = calls_of(context, _CALL)
    if not calls:
        # A worker process that imports the script again must keep its own number, which is one.
        return at_start(context, _CALL, f"{{}}({threads})", once=True)
    if len(calls) > 1:
        lines = ", ".join(str(call.lineno) for _, call in calls)
        raise refusal(f"`{_CALL}` is called more than once, on lines {lines}", calls[0][0], calls[0][1])
    module, call = calls[0]
    given = passed(call, "int", 0).value
    if given is None:
        raise refusal(f"`{text_of(call)}` is computed when the script runs", module, call)
    return set_literal(module, given, _CALL, str(threads))


def present(context: RewriteContext) -> str | None:
    """The number of threads that the script sets."""
    calls = calls_of(context, _CALL)
    if not calls:
        return None
    given = [passed(call, "int", 0).value for _, call in calls]
    if isinstance(given[-1], ast.Constant):
        return str(given[-1].value)
    return str(context.profile.environment.intraop_threads) if context.as_profiled() else None


def remove(context: RewriteContext) -> tuple[TextEdit, ...]:
    """Removes the statements that set the number."""
    return without_calls(calls_of(context, _CALL))
