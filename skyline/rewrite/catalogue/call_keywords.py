"""Rewrites that give one keyword argument to one call: the wrapper of a replica, or the training's loader.

Each rewrite is a row of a table. A keyword of the loader here is one that needs workers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from skyline.errors import RewriteRefused
from skyline.rewrite.argument import set_argument
from skyline.rewrite.context import RewriteContext
from skyline.rewrite.given_argument import as_value, literal_given, without_argument
from skyline.rewrite.registry import RewriteEntry
from skyline.rewrite.sites.replicas import replicas_arguments
from skyline.rewrite.sites.worker_argument import add_beside_workers, value_beside, without_beside
from skyline.rewrite.value import check_switched_on
from skyline.source.edit import TextEdit

_BESIDE_NUM_WORKERS = 60
"""The order of a rewrite that adds to what ``num_workers`` writes."""


def _switch(name: str, value: str) -> str:
    check_switched_on(name, value)
    return "True"


def _megabytes(name: str, value: str) -> str:
    try:
        number = float(value)
    except ValueError:
        number = 0.0
    if not 0 < number < 1e6:
        raise RewriteRefused(f"{value!r} is not a value for {name}", hint="Give megabytes.")
    return str(int(number)) if number.is_integer() else str(number)


def _batches(name: str, value: str) -> str:
    if not value.isdigit() or int(value) < 1:
        message = f"{value!r} is not a number of batches"
        raise RewriteRefused(message, hint=f"Give a whole number: {name}=4.")
    return str(int(value))


@dataclass(frozen=True, slots=True)
class ReplicasKeyword:
    """A keyword of ``DistributedDataParallel``."""

    name: str
    argument: str
    literal: Callable[[str, str], str]
    """From the name of the rewrite and the value asked for to the literal."""
    usual: str
    """The literal of the code example where no valid value is asked for."""
    off: str

    def entry(self) -> RewriteEntry:
        """The rewrite."""
        return RewriteEntry(
            self.name, self._rewrite, snippet=self._snippet, present=self._present, remove=self._remove
        )

    def _snippet(self, value: str) -> str:
        try:
            text = self.literal(self.name, value)
        except RewriteRefused:
            text = self.usual
        return f"model = DistributedDataParallel(model, {self.argument}={text})\n"

    def _rewrite(self, context: RewriteContext, value: str) -> tuple[TextEdit, ...]:
        text = self.literal(self.name, value)
        module, call = replicas_arguments(context)
        return set_argument(context, module, call, self.argument, text)

    def _present(self, context: RewriteContext) -> str | None:
        return as_value(literal_given(context, *replicas_arguments(context), self.argument))

    def _remove(self, context: RewriteContext) -> tuple[TextEdit, ...]:
        return without_argument(context, *replicas_arguments(context), self.argument, off=self.off)


@dataclass(frozen=True, slots=True)
class LoaderKeyword:
    """A keyword of ``DataLoader`` that only a loader with workers takes."""

    name: str
    literal: Callable[[str, str], str]
    guarded: str
    """The expression where a name decides the number of workers: ``{workers}`` is that name, ``{text}`` the literal."""
    off: str

    def entry(self) -> RewriteEntry:
        """The rewrite."""
        return RewriteEntry(
            self.name, self._rewrite, _BESIDE_NUM_WORKERS, present=self._present, remove=self._remove
        )

    def _rewrite(self, context: RewriteContext, value: str) -> tuple[TextEdit, ...]:
        text = self.literal(self.name, value)
        guarded = self.guarded.format(workers="{}", text=text)
        snippet = f"DataLoader(..., num_workers=N, {self.name}={text})"
        return add_beside_workers(context, self.name, text, guarded, snippet)

    def _present(self, context: RewriteContext) -> str | None:
        return value_beside(context, self.name)

    def _remove(self, context: RewriteContext) -> tuple[TextEdit, ...]:
        return without_beside(context, self.name, self.off)


_KEYWORDS = (
    ReplicasKeyword("ddp_bucket", "bucket_cap_mb", _megabytes, usual="25", off="None"),
    ReplicasKeyword("gradient_as_bucket_view", "gradient_as_bucket_view", _switch, usual="True", off="False"),
    ReplicasKeyword("static_graph", "static_graph", _switch, usual="True", off="False"),
    LoaderKeyword("persistent_workers", _switch, guarded="{workers} > 0", off="False"),
    LoaderKeyword("prefetch_factor", _batches, guarded="{text} if {workers} > 0 else None", off="None"),
)

ENTRIES = tuple(keyword.entry() for keyword in _KEYWORDS)
