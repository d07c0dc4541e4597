"""A training script with every kind of place where a person's code can run. The benchmark fills in ``SPEND``."""

import time

import torch
from torch.utils.data import DataLoader, Dataset


class Points(Dataset):
    def __init__(self, transform):
        self.transform = transform

    def __len__(self):
        return 100_000

    def __getitem__(self, index):
        SPEND("dataset of a loader")
        return self.transform(torch.ones(16) * index), torch.ones(1)


def transform(point):
    SPEND("transform")
    return point * 2


def collate(rows):
    SPEND("collate")
    return torch.stack([row[0] for row in rows]), torch.stack([row[1] for row in rows])


class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        SPEND("function forward")
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        SPEND("function backward")
        return gradient * 2


class Layer(torch.nn.Linear):
    def forward(self, x):
        SPEND("layer of a model")
        return super().forward(x)


def of_module(module, grad_input, grad_output):
    SPEND("module backward hook")


def of_forward(module, inputs, output):
    SPEND("module forward hook")


def of_output(gradient):
    SPEND("hook of an output")
    return gradient


def of_parameter(parameter):
    SPEND("hook of a parameter")


class Slow(torch.optim.SGD):
    def step(self, closure=None):
        SPEND("step of a subclass")
        return super().step(closure)


class Callback:
    def on_step(self):
        SPEND("callback")


model = torch.nn.Sequential(Layer(16, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
model[1].register_forward_hook(of_forward)
model[2].register_full_backward_hook(of_module)
model[2].weight.register_post_accumulate_grad_hook(of_parameter)
optimizer = Slow(model.parameters(), lr=0.01)
callback = Callback()
for x, y in DataLoader(Points(transform), batch_size=2, collate_fn=collate):
    out = Twice.apply(model(x))
    out.register_hook(of_output)
    loss = ((out - y) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    callback.on_step()
    SPEND("loop")
    _step()
