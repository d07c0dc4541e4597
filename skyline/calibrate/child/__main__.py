"""Measures cases from standard input, one JSON object per line, and answers each with a line."""

import json
import os
import sys
from functools import cache

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

_LEAST_US = 0.1
_MOST_CALLS = 4
_PARTS = ("host_forward", "host_backward", "host_optimizer")
_ON_HOST = ("host_view", "host_call", "host_module")
_DEVICE_CALLS = ("launch_call", "launch_latency", "kernel_gap", "queue_depth", "event_sync", "stream_sync")
_CACHE_BYTES = 64 << 20
"""Least total size of the tensors of alternating calls (up to four): larger than most caches."""


def main():
    """Run until the other side closes."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    # Output of libraries must not be mistaken for an answer.
    os.dup2(2, 1)
    device = sys.argv[1]
    try:
        import torch
    except ImportError as error:
        print(json.dumps({"error": str(error)}), file=answers)
        return
    import warnings

    warnings.simplefilter("ignore")
    torch.set_grad_enabled(False)
    own_threads = torch.get_num_threads()
    print(json.dumps(_facts(torch, device)), file=answers)
    for line in sys.stdin:
        case = json.loads(line)
        if device == "cpu":
            torch.set_num_threads(case["threads"] or own_threads)
        print(json.dumps(_answer(torch, case, device)), file=answers)


def _answer(torch, case, device):
    from clock import timed
    from operators import INDIRECT, call_of

    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = case["dtype"] == "tf32"
    try:
        if case["op"] in _PARTS:
            from training import beyond

            time_us, spread = beyond(case["op"].removeprefix("host_"), case["sizes"]["k"], device)
            return {"time_us": time_us, "spread": spread}
        if case["op"] in _DEVICE_CALLS:
            from device_calls import measured

            time_us, spread = measured(case["op"])
            return {"time_us": time_us, "spread": spread}
        copies = _MOST_CALLS if case["bytes"] * _MOST_CALLS <= _CACHE_BYTES else 2
        calls = [call_of(case["op"], case["sizes"], case["dtype"], device) for _ in range(copies)]
        # The calls of the host are timed by its own clock.
        time_us, spread = timed(calls, "cpu" if case["op"] in _ON_HOST else device)
        if device == "cpu" and case["op"] in INDIRECT:
            time_us = max(_LEAST_US, time_us - _detour_us())
    except (RuntimeError, KeyError, MemoryError, TypeError, AssertionError, AttributeError) as error:
        if device == "cuda":
            torch.cuda.empty_cache()
        return {"error": f"{type(error).__name__}: {error}".splitlines()[0][:200]}
    return {"time_us": time_us, "spread": spread}


@cache
def _detour_us():
    """Additional time of an operator through ``torch.ops``, in µs."""
    from clock import timed
    from operators import through_ops

    straight, round_about = (min(timed([call], "cpu")[0] for _ in range(5)) for call in through_ops())
    return max(0.0, round_about - straight)


def _facts(torch, device):
    """The facts about the measured device."""
    facts = {"torch": torch.__version__, "threads": torch.get_num_threads()}
    if device == "cuda":
        index = torch.cuda.current_device()
        properties = torch.cuda.get_device_properties(index)
        facts |= {
            "name": properties.name,
            "memory_bytes": properties.total_memory,
            "multiprocessors": properties.multi_processor_count,
            "capability": list(torch.cuda.get_device_capability(index)),
            "bf16": torch.cuda.is_bf16_supported(),
            "fp8": torch.cuda.get_device_capability(index) >= (8, 9) and hasattr(torch, "float8_e4m3fn"),
        }
    return facts


if __name__ == "__main__":
    main()
