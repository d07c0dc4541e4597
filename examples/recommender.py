"""Train a click-through model: embedding bags for what people looked at, an MLP on top."""

import argparse
import random
from dataclasses import dataclass

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset


@dataclass
class Config:
    batch_size: int = 512
    epochs: int = 3
    learning_rate: float = 0.02
    samples: int = 16384
    users: int = 20_000
    items: int = 40_000
    categories: int = 500
    max_history: int = 20
    dense_features: int = 8
    embedding_dim: int = 64
    hidden: int = 512
    log_every: int = 10
    seed: int = 0


class Clicks(Dataset):
    """Who was shown which item, what they had looked at before, and whether they clicked."""

    def __init__(self, config, seed):
        rng = random.Random(seed)
        generator = torch.Generator().manual_seed(seed)
        self.samples = []
        dense = torch.randn(config.samples, config.dense_features, generator=generator)
        for i in range(config.samples):
            user = rng.randrange(config.users)
            item = int(config.items * rng.random() ** 3)  # a few items are popular, most are not
            taste = user % config.categories
            history = [int(config.items * rng.random() ** 3) for _ in range(rng.randint(1, config.max_history))]
            categories = [taste] + [h % config.categories for h in history[:4]]
            score = 1.5 * (abs(item % config.categories - taste) < 60) + dense[i, 0].item() - 0.5
            clicked = float(rng.random() < 1 / (1 + 2.718281828 ** (-score)))
            self.samples.append((user, item, history, categories, dense[i], clicked))

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, index):
        return self.samples[index]


def flatten(lists):
    values, offsets = [], []
    for items in lists:
        offsets.append(len(values))
        values.extend(items)
    return torch.tensor(values), torch.tensor(offsets)


def collate(samples):
    users, items, histories, categories, dense, clicked = zip(*samples)
    return {
        "user": torch.tensor(users).unsqueeze(1),
        "item": torch.tensor(items).unsqueeze(1),
        "history": flatten(histories),
        "categories": flatten(categories),
        "dense": torch.stack(dense),
        "clicked": torch.tensor(clicked),
    }


class ClickModel(nn.Module):
    def __init__(self, config):
        super().__init__()
        dim = config.embedding_dim
        self.user = nn.EmbeddingBag(config.users, dim, mode="sum")
        self.item = nn.EmbeddingBag(config.items, dim, mode="sum")
        self.history = nn.EmbeddingBag(config.items, dim, mode="mean")
        self.categories = nn.EmbeddingBag(config.categories, dim, mode="mean")
        self.dense = nn.Sequential(nn.Linear(config.dense_features, dim), nn.ReLU())
        for table in (self.user, self.item, self.history, self.categories):
            nn.init.normal_(table.weight, std=0.05)
        fields = 5
        pairs = fields * (fields - 1) // 2
        self.register_buffer("upper", torch.triu(torch.ones(fields, fields), diagonal=1).bool())
        self.mlp = nn.Sequential(
            nn.Linear(fields * dim + pairs, config.hidden),
            nn.ReLU(),
            nn.Linear(config.hidden, config.hidden),
            nn.ReLU(),
            nn.Linear(config.hidden, 1),
        )

    def forward(self, batch):
        fields = torch.stack(
            [
                self.user(batch["user"]),
                self.item(batch["item"]),
                self.history(*batch["history"]),
                self.categories(*batch["categories"]),
                self.dense(batch["dense"]),
            ],
            dim=1,
        )
        interactions = fields @ fields.transpose(1, 2)
        interactions = interactions[:, self.upper]
        features = torch.cat([fields.flatten(1), interactions], dim=1)
        return self.mlp(features).squeeze(1)


def to_device(batch, device):
    moved = {}
    for name, value in batch.items():
        if isinstance(value, tuple):
            moved[name] = tuple(tensor.to(device) for tensor in value)
        else:
            moved[name] = value.to(device)
    return moved


def main():
    config = Config()
    torch.manual_seed(config.seed)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    device = torch.device(parser.parse_args().device)

    dataset = Clicks(config, seed=config.seed)
    loader = DataLoader(dataset, batch_size=config.batch_size, shuffle=True, collate_fn=collate)
    model = ClickModel(config).to(device)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=config.learning_rate)
    criterion = nn.BCEWithLogitsLoss()

    for epoch in range(config.epochs):
        running = 0.0
        for step, batch in enumerate(loader, start=1):
            batch = to_device(batch, device)
            loss = criterion(model(batch), batch["clicked"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

            running += loss.item()
            if step % config.log_every == 0:
                print(f"epoch {epoch} step {step:4d} loss {running / config.log_every:.4f}")
                running = 0.0


if __name__ == "__main__":
    main()
