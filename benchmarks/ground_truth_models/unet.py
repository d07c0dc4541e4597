"""A U-Net (Ronneberger and others, 2015) that tells foreground from background in noise."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=8)
parser.add_argument("--small", action="store_true")
args = parser.parse_args()

WIDTH, DEPTH, SIDE = (8, 2, 32) if args.small else (64, 4, 256)


def double(inside, outside):
    return nn.Sequential(
        nn.Conv2d(inside, outside, 3, padding=1, bias=False),
        nn.BatchNorm2d(outside),
        nn.ReLU(inplace=True),
        nn.Conv2d(outside, outside, 3, padding=1, bias=False),
        nn.BatchNorm2d(outside),
        nn.ReLU(inplace=True),
    )


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        widths = [WIDTH << level for level in range(DEPTH + 1)]
        self.first = double(3, WIDTH)
        self.down = nn.ModuleList([double(a, b) for a, b in zip(widths, widths[1:])])
        self.up = nn.ModuleList([nn.ConvTranspose2d(b, a, 2, 2) for a, b in zip(widths, widths[1:])][::-1])
        self.after = nn.ModuleList([double(2 * a, a) for a in widths[:-1]][::-1])
        self.pool = nn.MaxPool2d(2)
        self.out = nn.Conv2d(WIDTH, 1, 1)

    def forward(self, x):
        kept = [self.first(x)]
        for block in self.down:
            kept.append(block(self.pool(kept[-1])))
        x = kept.pop()
        for up, block in zip(self.up, self.after):
            x = block(torch.cat([kept.pop(), up(x)], dim=1))
        return self.out(x)


device = "cuda" if torch.cuda.is_available() else "cpu"
scans = TensorDataset(torch.randn(256, 3, SIDE, SIDE), torch.rand(256, 1, SIDE, SIDE).round())
loader = DataLoader(scans, batch_size=args.batch_size, shuffle=True, drop_last=True)
model = UNet().to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
criterion = nn.BCEWithLogitsLoss()

for epoch in range(1000):
    for images, masks in loader:
        images, masks = images.to(device), masks.to(device)
        loss = criterion(model(images), masks)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
