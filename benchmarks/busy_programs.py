"""Other programs that keep the machine busy, as on a shared runner."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager

_BUSY = "import time\nwhile True:\n e = time.time() + 1\n while time.time() < e: pass\n time.sleep(1)"


@contextmanager
def busy_programs(count: int) -> Generator[None, None, None]:
    """Run ``count`` programs that compute for a second and rest for a second."""
    running = [subprocess.Popen([sys.executable, "-c", _BUSY]) for _ in range(count)]
    try:
        yield
    finally:
        for one in running:
            one.kill()
            one.wait()
