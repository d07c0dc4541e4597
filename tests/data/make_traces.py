"""Makes the two small profiler traces of this folder.

    python tests/data/make_traces.py

``tiny_cpu.trace.json.gz`` is recorded: a few steps of a small model on this machine, so its times differ each time it
is made. ``tiny_gpu.trace.json`` is written by hand: five steps of one pattern, in whole µs, as a GPU would give them.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path

HERE = Path(__file__).parent
STEP_US, STEPS = 1000, 5


def event(category, name, start, duration, thread, **args):
    args = {key.replace("_", " "): value for key, value in args.items()}
    return {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": thread, "ts": start, "dur": duration,
            "args": args}  # fmt: skip


def work(category, name, start, duration, correlation, **args):
    args = {"stream": 7, "device": 0, "correlation": correlation, **args}
    return {
        "ph": "X",
        "cat": category,
        "name": name,
        "pid": 0,
        "tid": 7,
        "ts": start,
        "dur": duration,
        "args": args,
    }


def step(number):
    """A batch is made and copied; two layers and their gradients; a value is read; two tensors are updated."""
    at, calls, sequence = number * STEP_US, number * 100, number * 10
    own, other = 1, 2
    made = [
        event("user_annotation", f"ProfilerStep#{number}", at, STEP_US, own),
        event(
            "user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", at + 5, 300, own
        ),
        event("cpu_op", "aten::to", at + 320, 40, own),
        event("cuda_runtime", "cudaMemcpyAsync", at + 325, 30, own, correlation=calls + 1),
        work("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", at + 330, 20, calls + 1, bytes=160_000),
    ]
    for layer, (name, kernel) in enumerate(
        (("aten::linear", "ampere_sgemm_128x64_tn"), ("aten::relu", "relu_kernel"))
    ):
        begin = at + 370 + 40 * layer
        made += [
            event("python_function", f"nn.Module: {('Linear', 'ReLU')[layer]}_0", begin - 2, 36, own,
                  Python_id=calls + layer, Python_module_id=layer),
            event("cpu_op", name, begin, 30, own, Sequence_number=sequence + layer, Fwd_thread_id=0),
            event("cuda_runtime", "cudaLaunchKernel", begin + 10, 10, own, correlation=calls + 10 + layer),
            work("kernel", kernel, begin + 17 + 40 * layer, (60, 30)[layer], calls + 10 + layer),
        ]  # fmt: skip
    backward = (("ReluBackward0", "relu_backward_kernel"), ("AddmmBackward0", "ampere_sgemm_nt"))
    for layer, (name, kernel) in enumerate(backward):
        begin = at + 470 + 40 * layer
        made += [
            event("cpu_op", f"autograd::engine::evaluate_function: {name}", begin, 30, other,
                  Sequence_number=sequence + 1 - layer, Fwd_thread_id=1),
            event("cuda_runtime", "cudaLaunchKernel", begin + 10, 10, other, correlation=calls + 20 + layer),
            work("kernel", kernel, (at + 527, at + 569)[layer], (40, 120)[layer], calls + 20 + layer),
        ]  # fmt: skip
    made += [
        event("cpu_op", "aten::item", at + 560, 145, own),
        event("cuda_runtime", "cudaMemcpyAsync", at + 565, 10, own, correlation=calls + 30),
        work("gpu_memcpy", "Memcpy DtoH (Device -> Pinned)", at + 691, 3, calls + 30, bytes=4),
        event("cuda_runtime", "cudaStreamSynchronize", at + 580, 120, own, correlation=calls + 31),
        event("user_annotation", "Optimizer.step#SGD.step", at + 720, 240, own),
    ]
    for call in range(4):
        begin = at + 730 + 55 * call
        made += [
            event("cpu_op", ("aten::mul_", "aten::add_")[call % 2], begin, 40, own),
            event("cuda_runtime", "cudaLaunchKernel", begin + 15, 10, own, correlation=calls + 40 + call),
            work("kernel", "vectorized_elementwise_kernel", begin + 22, 8, calls + 40 + call),
        ]
    return made


def gpu_trace():
    events = [one for number in range(STEPS) for one in step(number)]
    properties = {"id": 0, "name": "Imaginary GPU", "totalGlobalMem": 16_000_000_000, "computeMajor": 8,
                  "computeMinor": 0, "numSms": 40}  # fmt: skip
    return {"schemaVersion": 1, "deviceProperties": [properties], "traceEvents": events}


def cpu_trace():
    import torch
    from torch.profiler import ProfilerActivity, profile, schedule
    from torch.utils.data import DataLoader, TensorDataset

    torch.manual_seed(0)
    torch.set_num_threads(1)
    data = TensorDataset(torch.randn(256, 32), torch.randint(0, 4, (256,)))
    model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, foreach=False)
    path = HERE / "cpu.json"
    with profile(
        activities=[ProfilerActivity.CPU],
        schedule=schedule(wait=2, warmup=2, active=6, repeat=1),
        record_shapes=True,
        profile_memory=True,
        on_trace_ready=lambda made: made.export_chrome_trace(str(path)),
    ) as profiler:
        for inputs, targets in DataLoader(data, batch_size=16):
            loss = torch.nn.functional.cross_entropy(model(inputs), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            loss.item()
            profiler.step()
    found = json.loads(path.read_text(encoding="utf-8"))
    path.unlink()
    # Of what lies around the events only what says how to read them: the rest may name machines.
    return {
        key: found[key] for key in ("schemaVersion", "baseTimeNanoseconds", "traceEvents") if key in found
    }


if __name__ == "__main__":
    made = gpu_trace()
    lines = ",\n".join(json.dumps(one) for one in made.pop("traceEvents"))
    head = json.dumps(made)[:-1]
    (HERE / "tiny_gpu.trace.json").write_text(f'{head}, "traceEvents": [\n{lines}\n]}}\n', encoding="utf-8")
    recorded = json.dumps(cpu_trace()).encode()
    (HERE / "tiny_cpu.trace.json.gz").write_bytes(gzip.compress(recorded, 9, mtime=0))
