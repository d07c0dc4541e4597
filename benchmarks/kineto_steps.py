"""Record a few steps of a training script with PyTorch's own profiler, and its memory.

Run as ``python kineto_steps.py OUT SCRIPT [ARGS...]``. Writes OUT.json.gz, the trace of three steps after a few
others, and OUT.memory.json, then ends the script. It needs only PyTorch.
"""

from __future__ import annotations

import gzip
import json
import os
import runpy
import sys
from pathlib import Path

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.profiler import ProfilerActivity, profile, schedule

_BEFORE, _STEPS = 4, 3


def main() -> None:
    out, script, *arguments = sys.argv[1:]
    kinds = [ProfilerActivity.CPU]
    if torch.cuda.is_available():
        kinds.append(ProfilerActivity.CUDA)
    plan = schedule(wait=_BEFORE - 1, warmup=1, active=_STEPS, repeat=1)
    taken = profile(activities=kinds, schedule=plan, record_shapes=True)
    steps = 0

    def stepped(*_: object) -> None:
        nonlocal steps
        steps += 1
        taken.step()
        if steps == _BEFORE + _STEPS:
            taken.stop()
            _keep(taken, Path(out))
            os._exit(0)

    register_optimizer_step_post_hook(stepped)
    sys.argv = [script, *arguments]
    sys.path[0] = str(Path(script).resolve().parent)
    taken.start()
    runpy.run_path(script, run_name="__main__")


def _keep(taken: profile, out: Path) -> None:
    plain = out.with_name(f"{out.name}.json")
    taken.export_chrome_trace(str(plain))
    with gzip.open(f"{plain}.gz", "wb", compresslevel=9) as file:
        file.write(plain.read_bytes())
    plain.unlink()
    memory = {}
    if torch.cuda.is_available():
        memory = {
            "allocated_bytes": torch.cuda.max_memory_allocated(),
            "reserved_bytes": torch.cuda.max_memory_reserved(),
        }
    out.with_name(f"{out.name}.memory.json").write_text(json.dumps(memory) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
