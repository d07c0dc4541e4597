import torch
from torch import nn
import torch.nn.functional as F

history = []
torch.manual_seed(7)
batches = [(torch.randn(16, 4), torch.randint(2, (16,))) for _ in range(6)]
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(inplace=True), nn.Linear(8, 2))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
for inputs, targets in batches:
    loss = F.cross_entropy(model(inputs), targets)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    history.append(loss.item())
