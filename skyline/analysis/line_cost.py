"""The cost of one source line per iteration, as a row."""

from __future__ import annotations

from skyline.analysis.line_parts import LinePart
from skyline.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class LineCost:
    """The cost of one line of the user's source per iteration.

    ``self_ms`` is all time attributed to this line, the sum of its phases: library code counts for the user's line that
    called it, backward work for the line of its forward operator. ``calls`` is the number of executions in the forward
    pass. ``flops`` counts forward and backward. ``activation_bytes`` is the memory that the line keeps for the backward
    pass, ``peak_bytes`` the memory that it allocated and that is live at the peak. ``gpu_ms`` is the time of the
    kernels that the line launched; they run concurrently with the host and are not part of ``self_ms``. ``frequency``
    is the share of recorded iterations in which the line ran. ``file`` and ``line`` are empty and 0 in the single row
    of the unattributed time.
    """

    file: str
    line: int
    function: str
    module: str
    source: str
    calls: float
    data_ms: float
    forward_ms: float
    backward_ms: float
    optimizer_ms: float
    other_ms: float
    self_ms: float
    share: float
    activation_bytes: int
    flops: int = 0
    peak_bytes: int = 0
    gpu_ms: float = 0.0
    frequency: float = 1.0
    parts: tuple[LinePart, ...] = ()
    cell: str = ""
    """In a notebook, the place as its reader knows it, such as ``In [7]:3``. The report fills it in."""
