"""Changes the number of worker processes of the training's DataLoader."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from functools import partial

from skyline.errors import RewriteRefused
from skyline.rewrite.argument import (
    add_keyword,
    is_off,
    keyword_of,
    literal_given,
    replace_value,
    without_argument,
)
from skyline.rewrite.blocks import replace, wrap_expression
from skyline.rewrite.context import RewriteContext, refusal
from skyline.rewrite.element import without_keyword
from skyline.rewrite.sites.configured import (
    check_not_forced,
    configured_place,
    literal_edit,
    named_literal,
    place_edit,
)
from skyline.rewrite.sites.given import behind, check_not_commanded
from skyline.rewrite.sites.iteration import framework
from skyline.source.arguments import calls_at, passed, qualified_name
from skyline.source.batch_uses import is_loader, loader_calls, purpose
from skyline.source.knob import DEFAULTS, KnobKind
from skyline.source.mapping import holds
from skyline.source.origin import Frame, Route
from skyline.source.program import Module
from skyline.source.resolver import Origin
from skyline.source.scope import is_main_guard
from skyline.source.setting_names import Setting, words
from skyline.source.shared_use import reads
from skyline.source.text import TextEdit, offsets_of, text_of
from skyline.trace.facts import LoaderFact


def training_loader_fact(context: RewriteContext) -> LoaderFact | None:
    """The loader that delivered the batches in the run, if the line that made it is known."""
    delivered = sorted(context.profile.loaders, key=lambda loader: -loader.fetches_per_iteration)
    return next((loader for loader in delivered if loader.created_line is not None), None)


def training_loader(context: RewriteContext) -> tuple[Module, ast.Call]:
    """The call that made the loader which delivered the batches, or the only one used for training."""
    fact = training_loader_fact(context)
    place = None if fact is None else fact.created_line
    if place is not None:
        module, line = context.place(place)
        calls = calls_at(module, line, partial(is_loader, module))
        if len(calls) == 1:
            return module, calls[0]
        found = "no DataLoader(…) call" if not calls else "more than one DataLoader(…) call"
        raise RewriteRefused(f"Line {line} holds {found}", file=place.file, line=line)
    calls = [pair for pair in loader_calls(context.program) if is_loader(pair[0], pair[1].func)]
    training = [pair for pair in calls if purpose(*pair) is False]
    chosen = training or [pair for pair in calls if purpose(*pair) is None]
    if len(chosen) != 1:
        reason = (
            "There is no DataLoader(…) call" if not chosen else "Several DataLoaders may be the training's"
        )
        raise RewriteRefused(reason, file=context.profile.script)
    return chosen[0]


NAME = "num_workers"
_POSITION = 5
_LIBRARY_NAME = "dataloader_num_workers"
_SKORCH_NAME = "iterator_train__num_workers"
_WORKER_WORDS = {"worker", "workers", "nworkers", "threads", "processes", "procs", "jobs", "njobs", "cpus"}
_GO_ALONG = {"prefetch_factor": "None", "persistent_workers": "False"}
"""Arguments that fail without workers, and their values in that case."""
_WORKERS_ONLY = (*_GO_ALONG, "multiprocessing_context")


def rewrite(context: RewriteContext, value: str) -> tuple[TextEdit, ...]:
    """Sets ``num_workers=N`` in the call that made the loader, or in the literal behind the argument."""
    workers = _workers(value)
    try:
        module, call = training_loader(context)
    except RewriteRefused:
        edits = _of_library(context, workers)
        if edits is None:
            raise
        return edits
    _guard(context, module, call, workers)
    frame = Frame(module, module.scope(call))
    given = passed(call, NAME, _POSITION)
    if given.value is not None:
        if isinstance(given.value, ast.Name | ast.Attribute | ast.Subscript):
            return _behind(context, frame, given.value, workers)
        return _changed(module, given.value, workers)
    route = Route(KnobKind.CALL_ARGUMENT, NAME)
    for mapping in given.mappings:
        held = holds(context.resolver, mapping, frame, NAME, route)
        place = configured_place(context, Setting.NUM_WORKERS) if held is None else None
        if place is not None:
            return place_edit(context, Setting.NUM_WORKERS, place, workers)
        if held is None:
            message = f"`**{text_of(mapping)}` may already set num_workers"
            raise refusal(message, module, call, hint="Set it where that is made.")
        if held:
            return _in_mapping(context, frame, mapping, workers)
    return add_keyword(module.source, call, f"{NAME}={workers}")


def _workers(value: str) -> int:
    try:
        workers = int(value)
    except ValueError:
        workers = -1
    if workers < 0:
        raise RewriteRefused(
            f"{value!r} is not a number of workers", hint="Give a whole number: num_workers=2."
        )
    return workers


def _guard(context: RewriteContext, module: Module, call: ast.Call, workers: int) -> None:
    if workers == 0:
        now = passed(call, NAME, _POSITION).value
        for name in _WORKERS_ONLY:
            given = keyword_of(call, name)
            if given is None or is_off(given.value) or (now is not None and _follows(given.value, now)):
                continue
            raise refusal(f"`{name}` is set, which needs workers", module, call)
        return
    script = context.resolver.program.script
    guarded = any(isinstance(node, ast.If) and is_main_guard(node) for node in ast.walk(script.tree))
    if not guarded and _starts_afresh(context):
        message = 'Workers import the script again here, and it has no `if __name__ == "__main__":`'
        raise RewriteRefused(message, file=script.path, hint="Put the training under such a line first.")


def _starts_afresh(context: RewriteContext) -> bool:
    """True if workers are new interpreters, not forks: outside Linux, and everywhere from Python 3.14."""
    environment = context.profile.environment
    version = tuple(int(part) for part in environment.python.split(".")[:2] if part.isdigit())
    return not environment.platform.lower().startswith("linux") or version >= (3, 14)


def _in_mapping(
    context: RewriteContext, frame: Frame, mapping: ast.expr, workers: int
) -> tuple[TextEdit, ...]:
    """Edits the literal in a mapping; if the run did not use it, adds an item that overrides the mapping's."""
    if isinstance(mapping, ast.Dict):
        pairs = zip(mapping.keys, mapping.values, strict=True)
        found = [value for key, value in pairs if isinstance(key, ast.Constant) and key.value == NAME]
        if found and isinstance(found[-1], ast.Constant):
            return _changed(frame.module, found[-1], workers)
    item = ast.copy_location(ast.Subscript(mapping, ast.Constant(NAME), ast.Load()), mapping)
    literals = _literals(context, frame, item)
    passed_by = literals and all(_passed_by(context, each) for each in literals)
    if not passed_by:
        return _behind(context, frame, item, workers)
    told = training_loader_fact(context)
    if told is not None and told.num_workers == workers:
        return ()
    plain = isinstance(mapping, ast.Name | ast.Attribute | ast.Subscript | ast.Call)
    opening, closing = ("{**", "") if plain else ("{**(", ")")
    return wrap_expression(frame.module, mapping, opening, f'{closing}, "{NAME}": {workers}}}')


def _literals(context: RewriteContext, frame: Frame, node: ast.expr) -> list[Origin]:
    origins = {
        (origin.module.path, *_start(origin)): origin
        for origin in context.resolver.literals(node, frame, Route(KnobKind.CALL_ARGUMENT, NAME))
    }
    return [origin for origin in origins.values() if origin.literal is not None]


def _passed_by(context: RewriteContext, origin: Origin) -> bool:
    """True if the profiled run had another number of workers than this literal, on an unchanged line."""
    told, literal = training_loader_fact(context), origin.literal
    if told is None or origin.route.computed or literal is None or told.num_workers == literal:
        return False
    line, path = origin.module.source.line(origin.node.lineno), os.path.realpath(origin.module.path)
    profiled = (source for source in context.profile.sources if os.path.realpath(source.path) == path)
    return any(line in source.text.splitlines() for source in profiled)


def _behind(context: RewriteContext, frame: Frame, node: ast.expr, workers: int) -> tuple[TextEdit, ...]:
    """The edit of the one literal or setting behind a name; refused if there is not exactly one."""
    literals = _literals(context, frame, node)
    if len(literals) != 1 or literals[0].route.kind in DEFAULTS or _passed_by(context, literals[0]):
        # A file that the run opened overrides a default.
        place = configured_place(context, Setting.NUM_WORKERS)
        if place is not None:
            return place_edit(context, Setting.NUM_WORKERS, place, workers)
    check_not_forced(Setting.NUM_WORKERS, _overrides(context), workers)
    if len(literals) != 1 or literals[0].route.computed:
        message = f"num_workers is `{text_of(node)}`, which does not lead to one number in the source"
        raise refusal(message, frame.module, node, hint="Change it by hand.")
    origin = literals[0]
    check_not_commanded(context, origin, f" to {workers}")
    _check_shared(context, origin)
    if _passed_by(context, origin):
        message = f"num_workers is {origin.literal} here, and the profiled run had another number of workers"
        raise refusal(message, origin.module, origin.node, hint="Find what decides it, and change it there.")
    return _changed(origin.module, origin.node, workers)


def _overrides(context: RewriteContext) -> tuple[str, ...]:
    """Arguments that set keys of a configuration, without declared options, which are read separately."""
    return tuple(each for each in context.profile.arguments if "=" in each and not each.startswith("--"))


def _of_library(context: RewriteContext, workers: int) -> tuple[TextEdit, ...] | None:
    """The edit if a library makes the loader from a setting (``dataloader_num_workers``). None without one.

    Hugging Face's arguments and skorch nets get the setting if they have none.
    """
    told = training_loader_fact(context) or next(iter(context.profile.loaders), None)
    if told is None:
        return None
    place = configured_place(context, Setting.NUM_WORKERS)
    if place is not None:
        return place_edit(context, Setting.NUM_WORKERS, place, workers)
    literal = named_literal(context, Setting.NUM_WORKERS, told.num_workers)
    if literal is not None:
        return literal_edit(literal, workers)
    used = framework(context)
    if told.num_workers:
        return None
    if used is not None and used.kind == "transformers" and used.takes_switches:
        return add_keyword(used.module.source, used.call, f"{_LIBRARY_NAME}={workers}")
    nets = list(_skorch_nets(context))
    if len(nets) != 1:
        return None
    ((module, call),) = nets
    return add_keyword(module.source, call, f"{_SKORCH_NAME}={workers}")


def _skorch_nets(context: RewriteContext) -> Iterator[tuple[Module, ast.Call]]:
    """The calls that make a skorch net, which makes its loaders from arguments with a prefix."""
    for module, call in context.program.nodes_of(ast.Call):
        name = qualified_name(module, call.func)
        if name.startswith("skorch.") and name.rpartition(".")[2].startswith("NeuralNet"):
            yield module, call


def _check_shared(context: RewriteContext, origin: Origin) -> None:
    """Refuses a variable with several uses, unless its name shows that it is the number of workers."""
    for holder in origin.route.holders:
        if set(words(holder.name)) & _WORKER_WORDS:
            continue
        uses = list(reads(context.resolver.program, holder))
        if len(uses) > 1:
            lines = ", ".join(str(line) for line in sorted({use.lineno for _, use in uses}))
            message = f"`{holder.name}` may set more than num_workers: it is read on lines {lines}"
            raise refusal(message, origin.module, origin.node)


def _start(origin: Origin) -> tuple[int, int]:
    return origin.node.lineno, origin.node.col_offset


def _changed(module: Module, node: ast.expr, workers: int) -> tuple[TextEdit, ...]:
    if isinstance(node, ast.Constant) and node.value == workers and not isinstance(node.value, bool):
        return ()
    return (replace_value(module.source, node, str(workers)),)


def present(context: RewriteContext) -> str | None:
    """The number of workers. None if the training's loader has none."""
    module, call = training_loader(context)
    if behind(context, module, call, NAME, _POSITION) is None:
        return None
    told = training_loader_fact(context)
    if told is not None and told.num_workers > 0 and context.as_profiled():
        return str(told.num_workers)
    number = literal_given(context, module, call, NAME, _POSITION)
    return str(number) if isinstance(number, int) and number > 0 else None


def remove(context: RewriteContext) -> tuple[TextEdit, ...]:
    """Removes the workers, and the arguments that the loader takes only with them."""
    return context.in_turn((_without_dependents, _without_workers))


def _without_dependents(context: RewriteContext) -> tuple[TextEdit, ...]:
    module, call = training_loader(context)
    given = keyword_of(call, "multiprocessing_context") or keyword_of(call, "timeout")
    if given is not None and not is_off(given.value) and not _is_zero(given.value):
        message = f"`{given.arg}={text_of(given.value)}` is set, which needs workers"
        raise refusal(message, module, given.value, hint="Remove it first.")
    return context.in_turn(partial(_without_dependent, name=name) for name in _GO_ALONG)


def _without_dependent(context: RewriteContext, name: str) -> tuple[TextEdit, ...]:
    module, call = training_loader(context)
    workers = behind(context, module, call, NAME, _POSITION)
    try:
        value = behind(context, module, call, name)
    except RewriteRefused:
        told = training_loader_fact(context)
        if told is not None and told.persistent_workers:
            raise
        return ()
    if workers is None or value is None or is_off(value) or _follows(value, workers):
        return ()
    return without_argument(context, module, call, name, off=_GO_ALONG[name])


def _follows(value: ast.expr, workers: ast.expr) -> bool:
    """True if the number of workers itself decides an argument, as in ``workers > 0``."""
    if not isinstance(workers, ast.Name | ast.Attribute | ast.Subscript):
        return False
    wanted = ast.unparse(workers)
    return any(isinstance(each, ast.Compare) and ast.unparse(each.left) == wanted for each in ast.walk(value))


def _without_workers(context: RewriteContext) -> tuple[TextEdit, ...]:
    module, call = training_loader(context)
    keyword = keyword_of(call, NAME)
    if keyword is not None and not isinstance(keyword.value, ast.Name | ast.Attribute | ast.Subscript):
        return without_keyword(module, keyword)
    for spread in (each.value for each in call.keywords if each.arg is None):
        # The text that the rewrite writes over a person's mapping: ``**{**options, "num_workers": 2}``.
        match spread:
            case ast.Dict(keys=[None, ast.Constant(value=name)], values=[mapping, _]) if name == NAME:
                start, end = offsets_of(module.source, mapping)
                return replace(module, spread, module.source.text[start:end])
            case _:
                continue
    return rewrite(context, "0")


def _is_zero(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == 0
