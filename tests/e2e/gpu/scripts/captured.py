"""The whole step is captured in a CUDA graph and replayed."""

import torch
from torch import nn

batch_size = 32
model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1)).to("cuda")
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x = torch.randn(batch_size, 64, device="cuda")
y = torch.randn(batch_size, 1, device="cuda")


def train_step():
    optimizer.zero_grad(set_to_none=True)
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    return loss


side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    for _ in range(3):
        train_step()
torch.cuda.current_stream().wait_stream(side)

graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    static_loss = train_step()

for step in range(1_000_000):
    x.copy_(torch.randn(batch_size, 64))
    y.copy_(torch.randn(batch_size, 1))
    graph.replay()
    if step % 20 == 0:
        print(static_loss.item())
