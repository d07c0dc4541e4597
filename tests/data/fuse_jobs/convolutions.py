import torch
from torch import nn
import torch.nn.functional as F

history = []
torch.manual_seed(7)

class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(width)

    def forward(self, x):
        return F.relu(x + self.norm(self.conv(x)))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3)
        self.blocks = nn.Sequential(Block(8), Block(8))
        self.head = nn.Linear(8, 4)

    def forward(self, x):
        return self.head(self.blocks(self.stem(x)).mean(dim=(2, 3)))


@torch.no_grad()
def evaluate(model, batches):
    model.eval()
    return sum((model(images).argmax(dim=1) == labels).sum().item() for images, labels in batches)


def train(model, batches, optimizer):
    model.train()
    for images, labels in batches:
        optimizer.zero_grad()
        logits = model(images)
        loss = F.cross_entropy(logits, labels, label_smoothing=0.05)
        loss.backward()
        optimizer.step()
        history.append(loss.item())


def main():
    batches = [(torch.randn(8, 3, 8, 8), torch.randint(4, (8,))) for _ in range(5)]
    model = Net().to("cpu")
    print(sum(p.numel() for p in model.parameters()))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    train(model, batches, optimizer)
    print(evaluate(model, batches))
    return model


model = main()
