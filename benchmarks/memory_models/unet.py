"""A U-Net on small images; AdamW."""

import torch
from torch import nn


def double(width_in, width):
    return nn.Sequential(
        nn.Conv2d(width_in, width, 3, padding=1),
        nn.BatchNorm2d(width),
        nn.ReLU(inplace=True),
        nn.Conv2d(width, width, 3, padding=1),
        nn.BatchNorm2d(width),
        nn.ReLU(inplace=True),
    )


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down1, self.down2, self.down3 = double(3, 32), double(32, 64), double(64, 128)
        self.pool = nn.MaxPool2d(2)
        self.up2, self.up1 = nn.ConvTranspose2d(128, 64, 2, 2), nn.ConvTranspose2d(64, 32, 2, 2)
        self.join2, self.join1 = double(128, 64), double(64, 32)
        self.head = nn.Conv2d(32, 4, 1)

    def forward(self, x):
        first = self.down1(x)
        second = self.down2(self.pool(first))
        third = self.down3(self.pool(second))
        x = self.join2(torch.cat([second, self.up2(third)], dim=1))
        x = self.join1(torch.cat([first, self.up1(x)], dim=1))
        return self.head(x)


batch_size = 8
model = UNet()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-2)
for step in range(10_000):
    images, masks = torch.randn(batch_size, 3, 96, 96), torch.randint(0, 4, (batch_size, 96, 96))
    loss = nn.functional.cross_entropy(model(images), masks)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
