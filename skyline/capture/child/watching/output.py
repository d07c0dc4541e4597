"""Finds lines of a benchmark's logger in the script's output as they are written, without changing the output."""

from __future__ import annotations

import sys

MARK = ":::MLLOG"
_LONGEST = 1 << 14


def observe(heard):
    """Call ``heard`` with the rest of each line from the mark on. Streams that allow no change are skipped."""
    for stream in {id(one): one for one in (sys.stdout, sys.stderr) if one is not None}.values():
        try:
            stream.write = _observed(stream.write, heard)
        except AttributeError:
            pass


def _observed(write, heard):
    rest = ""

    def watched(text):
        nonlocal rest
        written = write(text)
        if rest or (isinstance(text, str) and MARK in text):
            # A line may come in several pieces.
            *lines, rest = (rest + text).split("\n")
            for line in lines:
                if MARK in line:
                    heard(line[line.index(MARK) :])
            if MARK not in rest or len(rest) > _LONGEST:
                rest = ""
        return written

    return watched
