"""Runs pytest in forks of one process with the common imports. `mutation.py` sends requests as lines of JSON."""

from __future__ import annotations

import json
import os
import resource
import sys

import hypothesis  # noqa: F401  imported once for all runs
import numpy as np  # noqa: F401
import pytest


def main() -> None:
    """Answer each line, the arguments of a run and its limit of processor time, with the exit code."""
    for line in sys.stdin:
        arguments, limit_s = json.loads(line)
        child = os.fork()
        if child == 0:
            code = 3
            try:
                resource.setrlimit(resource.RLIMIT_CPU, (limit_s, limit_s))
                with open("output.txt", "w", encoding="utf-8") as output:
                    os.dup2(output.fileno(), 1)
                    os.dup2(output.fileno(), 2)
                code = int(pytest.main(arguments))
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()
