"""Train a small residual network on synthetic 32x32 images of coloured gratings."""

import argparse
import math
import random
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

NUM_CLASSES = 10


def random_crop(image, padding=4):
    _, height, width = image.shape
    image = F.pad(image.unsqueeze(0), (padding,) * 4, mode="reflect").squeeze(0)
    top = random.randint(0, 2 * padding)
    left = random.randint(0, 2 * padding)
    return image[:, top : top + height, left : left + width]


def random_flip(image):
    return image.flip(-1) if random.random() < 0.5 else image


def color_jitter(image, strength=0.3):
    brightness = random.uniform(1 - strength, 1 + strength)
    contrast = random.uniform(1 - strength, 1 + strength)
    saturation = random.uniform(1 - strength, 1 + strength)
    image = image * brightness
    image = (image - image.mean()) * contrast + image.mean()
    gray = image.mean(dim=0, keepdim=True)
    image = gray + (image - gray) * saturation
    return image.clamp(0, 1)


def gaussian_blur(image, kernel_size=5):
    sigma = random.uniform(0.1, 1.5)
    offsets = torch.arange(kernel_size) - kernel_size // 2
    kernel = torch.exp(-(offsets**2) / (2 * sigma**2))
    kernel = kernel / kernel.sum()
    channels = image.shape[0]
    image = image.unsqueeze(0)
    image = F.conv2d(image, kernel.view(1, 1, 1, -1).repeat(channels, 1, 1, 1), padding=(0, 2), groups=channels)
    image = F.conv2d(image, kernel.view(1, 1, -1, 1).repeat(channels, 1, 1, 1), padding=(2, 0), groups=channels)
    return image.squeeze(0)


def normalize(image):
    return (image - 0.5) / 0.25


def train_transform(image):
    image = random_crop(image)
    image = random_flip(image)
    image = color_jitter(image)
    image = gaussian_blur(image)
    return normalize(image)


class Gratings(Dataset):
    """Striped images: the class decides the angle of the stripes, chance decides everything else."""

    def __init__(self, size, transform, seed):
        generator = torch.Generator().manual_seed(seed)
        self.transform = transform
        self.labels = torch.randint(NUM_CLASSES, (size,), generator=generator)
        angle = self.labels * math.pi / NUM_CLASSES
        frequency = 0.4 + 0.6 * torch.rand(size, generator=generator)
        phase = 2 * math.pi * torch.rand(size, generator=generator)
        y, x = torch.meshgrid(torch.arange(32.0), torch.arange(32.0), indexing="ij")
        along = x * angle.cos().view(-1, 1, 1) + y * angle.sin().view(-1, 1, 1)
        stripes = 0.5 + 0.5 * torch.sin(along * frequency.view(-1, 1, 1) + phase.view(-1, 1, 1))
        color = 0.3 + 0.7 * torch.rand(size, 3, 1, 1, generator=generator)
        images = stripes.unsqueeze(1) * color
        images += 0.1 * torch.randn(images.shape, generator=generator)
        self.images = (images.clamp(0, 1) * 255).to(torch.uint8)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        image = self.images[index].float() / 255
        return self.transform(image), self.labels[index]


class ResidualBlock(nn.Module):
    def __init__(self, in_channels, out_channels, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, out_channels, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(out_channels)
        self.conv2 = nn.Conv2d(out_channels, out_channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(out_channels)
        self.shortcut = nn.Identity()
        if stride != 1 or in_channels != out_channels:
            self.shortcut = nn.Sequential(
                nn.Conv2d(in_channels, out_channels, 1, stride=stride, bias=False),
                nn.BatchNorm2d(out_channels),
            )

    def forward(self, x):
        out = F.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        return F.relu(out + self.shortcut(x))


class SmallResNet(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, 3, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
        )
        self.stage1 = nn.Sequential(ResidualBlock(width, width), ResidualBlock(width, width))
        self.stage2 = nn.Sequential(ResidualBlock(width, 2 * width, stride=2), ResidualBlock(2 * width, 2 * width))
        self.stage3 = nn.Sequential(ResidualBlock(2 * width, 4 * width, stride=2), ResidualBlock(4 * width, 4 * width))
        self.head = nn.Linear(4 * width, NUM_CLASSES)

    def forward(self, x):
        x = self.stem(x)
        x = self.stage1(x)
        x = self.stage2(x)
        x = self.stage3(x)
        x = x.mean(dim=(2, 3))
        return self.head(x)


@torch.no_grad()
def evaluate(model, loader, device):
    model.eval()
    correct = total = 0
    for images, labels in loader:
        images, labels = images.to(device), labels.to(device)
        correct += (model(images).argmax(dim=1) == labels).sum().item()
        total += len(labels)
    return correct / total


def train_one_epoch(model, loader, optimizer, scheduler, device, epoch):
    model.train()
    start = time.time()
    for step, (images, labels) in enumerate(loader):
        images, labels = images.to(device), labels.to(device)
        optimizer.zero_grad()
        logits = model(images)
        loss = F.cross_entropy(logits, labels, label_smoothing=0.05)
        loss.backward()
        optimizer.step()
        scheduler.step()
        if step % 10 == 0:
            print(f"epoch {epoch} step {step:4d} loss {loss.item():.4f} ({time.time() - start:.1f} s)")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--train-size", type=int, default=2048)
    parser.add_argument("--checkpoint", default="image_classifier.pt")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()

    random.seed(args.seed)
    torch.manual_seed(args.seed)
    device = torch.device(args.device)

    train_set = Gratings(args.train_size, train_transform, seed=args.seed)
    test_set = Gratings(512, normalize, seed=args.seed + 1)
    train_loader = DataLoader(train_set, batch_size=args.batch_size, shuffle=True, drop_last=True)
    test_loader = DataLoader(test_set, batch_size=256)

    model = SmallResNet().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.05)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=args.lr, total_steps=args.epochs * len(train_loader)
    )

    for epoch in range(args.epochs):
        train_one_epoch(model, train_loader, optimizer, scheduler, device, epoch)
        accuracy = evaluate(model, test_loader, device)
        print(f"epoch {epoch} test accuracy {accuracy:.1%}")

    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, args.checkpoint)
    print(f"saved {args.checkpoint}")


if __name__ == "__main__":
    main()
