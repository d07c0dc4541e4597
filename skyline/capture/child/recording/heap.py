"""Memory in use in the C library's heap: recordings grow there, which the size of the process does not show."""

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
    """Bytes allocated in small blocks; 0 if the C library does not report them.

    The size of the process does not show them, because freed memory is reused. Large tensors have mappings of their
    own, which do not count here.
    """
    return 0 if _mallinfo2 is None else _mallinfo2().uordblks


def in_use_bytes():
    """All allocated bytes, including large tensors; 0 if the C library does not report them.

    If another allocator replaces the C library's, this is only the memory that the C library itself holds.
    """
    if _mallinfo2 is None:
        return 0
    told = _mallinfo2()
    return told.uordblks + told.hblkhd
