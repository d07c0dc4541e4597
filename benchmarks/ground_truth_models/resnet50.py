"""A ResNet-50 on pictures of noise: bottlenecks of three convolutions, as He and others describe them (CVPR 2016)."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=64)
parser.add_argument("--small", action="store_true")
args = parser.parse_args()

WIDTH, DEPTHS, SIDE = (16, (1, 1, 1, 1), 32) if args.small else (64, (3, 4, 6, 3), 224)


class Bottleneck(nn.Module):
    def __init__(self, inside, width, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inside, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, 4 * width, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(4 * width)
        self.shortcut = nn.Identity()
        if stride > 1 or inside != 4 * width:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inside, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width)
            )

    def forward(self, x):
        out = torch.relu(self.bn1(self.conv1(x)))
        out = torch.relu(self.bn2(self.conv2(out)))
        return torch.relu(self.bn3(self.conv3(out)) + self.shortcut(x))


class ResNet(nn.Module):
    def __init__(self, classes=1000):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, WIDTH, 7, 2, 3, bias=False), nn.BatchNorm2d(WIDTH), nn.ReLU(), nn.MaxPool2d(3, 2, 1)
        )
        blocks, inside = [], WIDTH
        for stage, depth in enumerate(DEPTHS):
            for place in range(depth):
                width = WIDTH << stage
                blocks.append(Bottleneck(inside, width, 2 if stage and not place else 1))
                inside = 4 * width
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(inside, classes)

    def forward(self, x):
        return self.head(self.blocks(self.stem(x)).mean((2, 3)))


device = "cuda" if torch.cuda.is_available() else "cpu"
pictures = TensorDataset(torch.randn(1024, 3, SIDE, SIDE), torch.randint(1000, (1024,)))
loader = DataLoader(pictures, batch_size=args.batch_size, shuffle=True, drop_last=True)
model = ResNet().to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
criterion = nn.CrossEntropyLoss()

for epoch in range(1000):
    for images, labels in loader:
        images, labels = images.to(device), labels.to(device)
        loss = criterion(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
