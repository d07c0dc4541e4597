"""The error for requests that need a trusted workspace."""

from __future__ import annotations

from skyline.errors import UsageError


class NotTrusted(UsageError):
    """The user has not trusted this workspace."""

    def __init__(self) -> None:
        super().__init__(
            "This workspace is not trusted, so Skyline runs none of its code",
            hint="Trust it in the editor. Saved profiles are shown without trust.",
        )
