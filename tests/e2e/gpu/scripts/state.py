"""Prints all that a script can tell of its state after each step, and uses the device in a forked child first."""

import hashlib
import os
import sys

import torch
from torch import nn

if os.fork() == 0:
    ok = torch.ones(2, device="cuda").sum().item() == 2
    os._exit(0 if ok else 3)
_, status = os.wait()

torch.manual_seed(1)
print("child", status)
model = nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32), nn.Dropout(0.2), nn.Linear(32, 4)).to("cuda")
optimizer = torch.optim.AdamW(model.parameters())
scaler = torch.amp.GradScaler("cuda", init_scale=2.0**20, growth_interval=3)
batch_size = 8


def digest():
    whole = hashlib.sha256()
    for value in (*model.state_dict().values(), *(v for s in optimizer.state.values() for v in s.values())):
        whole.update(value.detach().cpu().numpy().tobytes())
    whole.update(torch.get_rng_state().numpy().tobytes())
    whole.update(torch.cuda.get_rng_state().numpy().tobytes())
    return f"{whole.hexdigest()} scale {scaler.get_scale()}"


for step in range(int(sys.argv[1])):
    print("state", step, digest(), flush=True)
    x = torch.randn(batch_size, 16, device="cuda")
    with torch.autocast("cuda", torch.float16):
        loss = nn.functional.cross_entropy(model(x), torch.zeros(batch_size, dtype=torch.long, device="cuda"))
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
