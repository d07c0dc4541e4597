"""A loop as most are written; prints the time of its steps when it is run by itself to the end."""

import argparse
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=32)
parser.add_argument("--host-ms", type=float, nargs="+", default=[0.0])
parser.add_argument("--steps", type=int, default=1_000_000)
parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
args = parser.parse_args()

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1)).to(args.device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
data = torch.randn(4096, 64)
loader = DataLoader(TensorDataset(data, data.sum(1, keepdim=True)), args.batch_size, pin_memory=True)


def batches():
    while True:
        yield from loader


for host_ms in args.host_ms:
    for step, (x, y) in zip(range(args.steps), batches()):
        if step == 5:
            torch.cuda.synchronize()
            began = time.perf_counter()
        if host_ms:
            time.sleep(host_ms / 1e3)  # what a script does beside training: decoding, logging
        x, y = x.to(args.device, non_blocking=True), y.to(args.device, non_blocking=True)
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    torch.cuda.synchronize()
    print("ms a step:", (time.perf_counter() - began) * 1e3 / (args.steps - 5))
print("peak:", torch.cuda.max_memory_allocated())
