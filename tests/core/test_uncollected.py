from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import gc, sys, weakref
from skyline.uncollected import uncollected

class Node:
    pass

if sys.argv[1] == "frozen":
    gc.freeze()
collected = []
gc.callbacks.append(lambda phase, about: collected.append(about["generation"]))
with uncollected(last=sys.argv[2] == 'last'):
    assert not gc.isenabled()
    kept = [Node() for _ in range(100_000)]
    for node in kept:
        node.self = node
    gone = weakref.ref(kept[-1])
print(gc.isenabled(), bool(collected), gc.get_freeze_count() > 0)
del kept, node
gc.collect()
assert gone() is None
"""


def run(*words):
    command = [sys.executable, "-c", PROGRAM, *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()


def test_what_the_block_made_is_not_gone_through_at_its_end_and_is_still_collected():
    assert run("usual", "last") == ["True", "False", "False"]


def test_frozen_objects_stay_frozen():
    assert run("frozen", "last") == ["True", "True", "True"]


def test_in_a_process_that_goes_on_the_collector_sees_what_the_block_made():
    assert run("usual", "on") == ["True", "True", "False"]
