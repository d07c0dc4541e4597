"""Whether a change can be made in the person's code, worked out once per change."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from skyline.errors import SkylineError, UsageError
from skyline.rewrite.context import RewriteContext
from skyline.rewrite.plan import attempt
from skyline.source.text import SourceText
from skyline.trace.profile import Profile

Availability = tuple[Literal["available", "refused", "none"], str | None]


class Rewrites:
    """Dry-runs the rewrites on the sources of a profile and remembers the answers, so that a drag stays fast.

    Whether a change can be written is taken not to depend on its value: the place is found or it is not.
    """

    def __init__(self, profile: Profile) -> None:
        self._sources = {source.path: source.text for source in profile.sources}
        self._context = RewriteContext(profile, self._read)
        self._answers: dict[str, Availability] = {}

    def availability(self, parts: Iterable[tuple[str, str]]) -> Availability:
        """Of parts of a question, (name, value), together: refused where one is, none where one has no rewrite."""
        answers = [(name, self._of(name, value)) for name, value in parts]
        for worst in ("refused", "none"):
            for name, (answer, reason) in answers:
                if answer == worst:
                    return answer, f"{name}: {reason}" if reason and len(answers) > 1 else reason
        return ("available", None) if answers else ("none", None)

    def _of(self, name: str, value: str) -> Availability:
        if name not in self._answers:
            self._answers[name] = self._ask(name, value)
        return self._answers[name]

    def _ask(self, name: str, value: str) -> Availability:
        try:
            edits = attempt(self._context, name, value)
        except SkylineError as refused:
            return ("refused", refused.message)
        return ("none", None) if edits is None else ("available", None)

    def _read(self, path: str) -> SourceText:
        text = self._sources.get(path)
        if text is None:
            raise UsageError(f"{Path(path).name} is not among the sources of this profile")
        return SourceText.of(path, text)
