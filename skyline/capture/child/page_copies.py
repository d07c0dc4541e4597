"""The time to write to memory that a forked process shares, which the system copies page by page.

A program of its own, because a fork of the training script would make every page of the script a shared one. Each copy
interrupts the cores that run other threads of the process, which takes most of the time on virtual machines.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
import threading
import time

_BYTES = 4_000_000
_OWN_BYTES = 1 << 18
_TIMES = 3


def _copied_us(others):
    """The time in µs to write to a block while a fork shares it, minus that of a second write.

    Meanwhile ``others`` threads are busy, as those of PyTorch are between two operators.
    """
    with mmap.mmap(-1, _BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as block:
        start = ctypes.c_char.from_buffer(block)
        address = ctypes.addressof(start)
        _written_us(address)
        reading, writing = os.pipe()
        fork = os.fork()
        if fork == 0:
            os.close(writing)
            os.read(reading, 1)  # until the other end is closed
            os._exit(0)
        over, begun = threading.Event(), threading.Barrier(others + 1)
        busy = [threading.Thread(target=_compute, args=(begun, over)) for _ in range(others)]
        for one in busy:
            one.start()
        begun.wait()
        copied_us, again_us = _written_us(address), _written_us(address)
        over.set()
        for one in busy:
            one.join()
        os.close(reading)
        os.close(writing)
        os.waitpid(fork, 0)
        del start  # a block is closed only once nothing refers to it
        return copied_us - again_us


def _written_us(address):
    began = time.perf_counter()
    ctypes.memset(address, 1, _BYTES)  # other threads run meanwhile
    return 1e6 * (time.perf_counter() - began)


def _compute(begun, over):
    own = ctypes.create_string_buffer(_OWN_BYTES)
    begun.wait()
    while not over.is_set():
        ctypes.memset(own, 1, _OWN_BYTES)


if __name__ == "__main__":
    others = int(sys.argv[1]) - 1
    print(sorted(_copied_us(others) for _ in range(_TIMES))[_TIMES // 2] * 1e6 / _BYTES)
