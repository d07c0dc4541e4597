"""Whether anything of this workspace may be run."""

from __future__ import annotations

from skyline.errors import UsageError


class NotTrusted(UsageError):
    """The person has not said that they trust this workspace."""

    def __init__(self) -> None:
        super().__init__(
            "This workspace is not trusted, so that nothing in it is run",
            hint="Trust it in the editor. Saved profiles are shown in any case.",
        )
