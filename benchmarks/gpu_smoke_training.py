"""One training script for each way to use a GPU: ``gpu_smoke_training.py KIND [--steps N] [--small]``.

Prints its time per step and its peak when it runs alone to the end. It shares no code with Skyline.
"""

import argparse
import contextlib
import os
import time

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("kind")
parser.add_argument("--steps", type=int, default=10_000_000)
parser.add_argument("--small", action="store_true")
args = parser.parse_args()
kind, warmup = args.kind, 20

if kind == "fork":
    child = os.fork()
    if child == 0:
        os._exit(int(torch.ones(1, device="cuda").item() != 1))
    print("child status", os.waitpid(child, 0)[1], flush=True)
if kind == "nccl":
    torch.distributed.init_process_group("nccl")

device = torch.device("cuda")
batch_size, width = (64, 64) if args.small else (4096, 2048)
torch.manual_seed(0)
model = nn.Sequential(*[layer for _ in range(6) for layer in (nn.Linear(width, width), nn.ReLU())]).to(device)
if kind == "nccl":
    model = nn.parallel.DistributedDataParallel(model)
if kind == "compile":
    model = torch.compile(model, mode="reduce-overhead")
if kind == "large":
    # Two of these processes do not fit on the card.
    total = torch.cuda.mem_get_info()[1]
    held = torch.empty(int(total * 0.55), dtype=torch.uint8, device=device)
optimizer = torch.optim.AdamW(model.parameters(), capturable=kind == "capture")
scaler = torch.amp.GradScaler("cuda", enabled=kind == "amp")
data = torch.randn(8 * batch_size, width)
if kind in ("pinned", "capture"):
    data = data.pin_memory()


def span(name):
    return torch.profiler.record_function(name) if kind == "spans" else contextlib.nullcontext()


def train_step(x):
    with span("forward"), torch.autocast("cuda", torch.float16, enabled=kind == "amp"):
        loss = model(x).square().mean()
    optimizer.zero_grad(set_to_none=kind != "capture")
    with span("backward"):
        scaler.scale(loss).backward()
    with span("update"):
        scaler.step(optimizer)
        scaler.update()


copies = torch.cuda.Stream() if kind == "pinned" else None
if kind == "capture":
    static = data[:batch_size].to(device)
    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        for _ in range(3):
            train_step(static)
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        train_step(static)

for step in range(args.steps):
    if step == warmup:
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        began = time.perf_counter()
    if kind == "slow_host":
        time.sleep(0.008)
    batch = data[step % 8 * batch_size :][:batch_size]
    if kind == "pinned":
        with torch.cuda.stream(copies):
            x = batch.to(device, non_blocking=True)
        torch.cuda.current_stream().wait_stream(copies)
        x.record_stream(torch.cuda.current_stream())
    elif kind == "capture":
        static.copy_(batch, non_blocking=True)
    else:
        x = batch.to(device)
    if kind == "capture":
        graph.replay()
    else:
        train_step(x)
torch.cuda.synchronize()
print("ms a step:", (time.perf_counter() - began) * 1e3 / (args.steps - warmup))
print("peak:", torch.cuda.max_memory_allocated())
