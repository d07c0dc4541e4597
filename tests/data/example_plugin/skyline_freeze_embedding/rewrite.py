"""How the change is written: one line behind the one that completes the model."""

from __future__ import annotations

from skyline.errors import RewriteRefused
from skyline.rewrite.blocks import insert_after
from skyline.rewrite.context import RewriteContext
from skyline.rewrite.sites.model import model
from skyline.source.text import TextEdit

NAME = "freeze_embedding"


def snippet(value: str) -> str:
    return "model.embedding.requires_grad_(False)\n"


def rewrite(context: RewriteContext, value: str) -> tuple[TextEdit, ...]:
    if value:
        raise RewriteRefused("freeze_embedding takes no value", hint="Give the name without a value.")
    paths = [
        one.path.partition(".")[2]
        for one in context.profile.modules
        if one.library and one.trainable and one.class_name.startswith("Embedding")
    ]
    if not all(part.isidentifier() for path in paths for part in path.split(".")):
        raise RewriteRefused("An embedding is in a list of layers, and cannot be written by name")
    site = model(context)
    lines = [f"{site.text}.{path}.requires_grad_(False)" for path in paths]
    present = [line for line in lines if line in site.module.source.text]
    if present:
        return ()
    return insert_after(site.module, site.statement, *lines)
