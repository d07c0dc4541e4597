"""Standard input and output, reserved for the protocol."""

from __future__ import annotations

import os
import sys
from typing import BinaryIO

from skyline.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Stdio:
    """The file descriptor that the client writes to, and the stream that the client reads."""

    source: int
    writer: BinaryIO


def reserve_stdio() -> Stdio:
    """Take standard input and output away from everything else in this process and its children.

    A stray ``print`` in Skyline, a library or a child process goes to standard error. Nothing else can read the
    client's messages.
    """
    source = os.dup(0)
    writer = os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return Stdio(source, writer)
