"""What has come to stay is not looked through for garbage again: that would hold up a drag by a tenth of a second."""

from __future__ import annotations

import gc


def settle() -> None:
    """Collect garbage now, and take what is left for lasting until the next call."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()
