"""Memory in use of the C library's heap: recordings grow there, unseen by the system's own figures."""

from __future__ import annotations

import ctypes

_FIELDS = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"


class _Mallinfo2(ctypes.Structure):
    """The heap statistics of glibc."""

    _fields_ = tuple((name, ctypes.c_size_t) for name in _FIELDS.split())


def _find():
    try:
        function = ctypes.CDLL(None).mallinfo2
    except (OSError, AttributeError, TypeError):
        return None
    function.restype = _Mallinfo2
    return function


_mallinfo2 = _find()


def used_bytes():
    """Bytes that are given out in small blocks; 0 where the C library does not say.

    Memory that was given back before is used again without the process growing: its size tells nothing. Large
    tensors have mappings of their own, which do not count here.
    """
    return 0 if _mallinfo2 is None else _mallinfo2().uordblks


def in_use_bytes():
    """Bytes that are given out in all, large tensors included; 0 where the C library does not say.

    Another allocator that was loaded in the place of the C library's leaves this at what the library itself holds.
    """
    if _mallinfo2 is None:
        return 0
    told = _mallinfo2()
    return told.uordblks + told.hblkhd
