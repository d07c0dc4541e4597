"""ResNet-50 or VGG-19 of torchvision on pictures of noise, with the optimizer of MXNet's image classification."""

import argparse
import sys
from pathlib import Path

import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import vision_stand_in


def built(name):
    # torchvision's library of operators may not load with PyTorch's build for CPUs. These models need none of them.
    vision_stand_in.provide()
    import torchvision

    return getattr(torchvision.models, name)()


parser = argparse.ArgumentParser()
parser.add_argument("--model", choices=("resnet50", "vgg19"), default="resnet50")
parser.add_argument("--batch-size", type=int, default=32)
args = parser.parse_args()

model = built(args.model).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
images = torch.randn(args.batch_size, 3, 224, 224, device="cuda")
labels = torch.zeros(args.batch_size, dtype=torch.long, device="cuda")
for _ in range(100):
    loss = nn.functional.cross_entropy(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
