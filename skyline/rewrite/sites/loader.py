"""The calls that make data loaders."""

from __future__ import annotations

import ast

from skyline.errors import RewriteRefused
from skyline.rewrite.context import RewriteContext
from skyline.source.batch_uses import is_loader, loader_calls, purpose
from skyline.source.calls import calls_at
from skyline.source.program import Module
from skyline.trace.facts import LoaderFact


def training_loader_fact(context: RewriteContext) -> LoaderFact | None:
    """What the run told of the loader that delivered the batches, where it told which line made it."""
    delivered = sorted(context.profile.loaders, key=lambda loader: -loader.fetches_per_iteration)
    return next((loader for loader in delivered if loader.created_line is not None), None)


def training_loader(context: RewriteContext) -> tuple[Module, ast.Call]:
    """The call that made the loader which delivered the batches, or the only one that serves training."""
    fact = training_loader_fact(context)
    place = None if fact is None else fact.created_line
    if place is not None:
        module, line = context.place(place)
        calls = calls_at(module, line, is_loader)
        if len(calls) == 1:
            return module, calls[0]
        found = "no DataLoader(…) call" if not calls else "more than one DataLoader(…) call"
        raise RewriteRefused(f"Line {line} holds {found}", file=place.file, line=line)
    calls = [pair for pair in loader_calls(context.program) if is_loader(pair[1].func)]
    training = [pair for pair in calls if purpose(*pair) is False]
    chosen = training or [pair for pair in calls if purpose(*pair) is None]
    if len(chosen) != 1:
        reason = (
            "There is no DataLoader(…) call" if not chosen else "Several DataLoaders may be the training's"
        )
        raise RewriteRefused(reason, file=context.profile.script)
    return chosen[0]
