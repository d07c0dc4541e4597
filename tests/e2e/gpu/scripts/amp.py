"""Mixed precision with a scaler, in spans that the script opened for a profiler of its own."""

import torch
from torch import nn
from torch.profiler import record_function

batch_size = 32
device = "cuda"
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Dropout(0.1), nn.Linear(128, 10)).to(device)
optimizer = torch.optim.AdamW(model.parameters())
scaler = torch.amp.GradScaler(device)
for step in range(1_000_000):
    with record_function("batch"):
        x = torch.randn(batch_size, 64, device=device)
        y = torch.randint(10, (batch_size,), device=device)
    with record_function("forward"), torch.autocast(device, torch.float16):
        loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    with record_function("backward"):
        scaler.scale(loss).backward()
    with record_function("update"):
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
    if step % 10 == 0:
        loss.item()
