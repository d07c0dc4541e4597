"""Two processes train together, as torchrun starts them."""

import os

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

batch_size = 32
torch.distributed.init_process_group("nccl")
device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
torch.cuda.set_device(device)
model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 1)).to(device)
model = DistributedDataParallel(model, device_ids=[device.index], bucket_cap_mb=0.2)
optimizer = torch.optim.AdamW(model.parameters())
for step in range(1_000_000):
    x = torch.randn(batch_size, 64, device=device)
    loss = model(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
