"""VGG-19 on pictures of noise: sixteen convolutions and three products, by Simonyan and Zisserman (2015)."""

import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=32)
args = parser.parse_args()


def convolutions():
    channels = 3
    for width, count in ((64, 2), (128, 2), (256, 4), (512, 4), (512, 4)):
        for _ in range(count):
            yield nn.Conv2d(channels, width, 3, padding=1)
            yield nn.ReLU(inplace=True)
            channels = width
        yield nn.MaxPool2d(2)


head = [nn.Flatten(), nn.Linear(512 * 7 * 7, 4096), nn.ReLU(), nn.Dropout(), nn.Linear(4096, 4096), nn.ReLU()]
model = nn.Sequential(*convolutions(), *head, nn.Dropout(), nn.Linear(4096, 1000)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
images = torch.randn(args.batch_size, 3, 224, 224, device="cuda")
labels = torch.zeros(args.batch_size, dtype=torch.long, device="cuda")
for _ in range(100):
    loss = nn.functional.cross_entropy(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
