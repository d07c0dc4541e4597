"""Each forward pass of adversarial training goes under an autocast of its own."""

from __future__ import annotations

from dataclasses import replace

import pytest

GAN = """import torch
netD, netG = make()
optD = torch.optim.Adam(netD.parameters())
optG = torch.optim.Adam(netG.parameters())
"""
ADVERSARIAL = {
    "one loss each": (
        """for real, _ in loader:
    optD.zero_grad()
    fake = netG(noise())
    real_loss = f(netD(real), 1)
    fake_loss = f(netD(fake.detach()), 0)
    (real_loss + fake_loss).backward()
    optD.step()
    optG.zero_grad()
    loss = f(netD(fake), 1)
    loss.backward()
    optG.step()
""",
        """for real, _ in loader:
    optD.zero_grad()
    with torch.autocast(device_type="cpu", dtype=torch.bfloat16):
        fake = netG(noise())
        real_loss = f(netD(real), 1)
        fake_loss = f(netD(fake.detach()), 0)
    (real_loss + fake_loss).backward()
    optD.step()
    optG.zero_grad()
    with torch.autocast(device_type="cpu", dtype=torch.bfloat16):
        loss = f(netD(fake), 1)
    loss.backward()
    optG.step()
""",
    ),
    "two losses of one model": (
        """for real, _ in loader:
    good = f(netD(real), 1)
    good.backward()
    bad = f(netD(netG(noise()).detach()), 0)
    bad.backward()
    optD.step()
""",
        """for real, _ in loader:
    with torch.autocast(device_type="cpu", dtype=torch.bfloat16):
        good = f(netD(real), 1)
    good.backward()
    with torch.autocast(device_type="cpu", dtype=torch.bfloat16):
        bad = f(netD(netG(noise()).detach()), 0)
    bad.backward()
    optD.step()
""",
    ),
    "a loss of earlier results": (
        """for real, _ in loader:
    made = netG(noise())
    first = f(netD(made), 0)
    first.backward(retain_graph=True)
    second = made.square().mean()
    second.backward()
    optG.step()
""",
        """for real, _ in loader:
    with torch.autocast(device_type="cpu", dtype=torch.bfloat16):
        made = netG(noise())
        first = f(netD(made), 0)
    first.backward(retain_graph=True)
    second = made.square().mean()
    second.backward()
    optG.step()
""",
    ),
    "one of them in a function": (
        """def critic(real):
    cost = netD(netG(noise())).mean() - netD(real).mean()
    cost.backward()
    optD.step()
for real, _ in loader:
    critic(real)
    cost = -netD(netG(noise())).mean()
    cost.backward()
    optG.step()
""",
        """def critic(real):
    with torch.autocast(device_type="cpu", dtype=torch.bfloat16):
        cost = netD(netG(noise())).mean() - netD(real).mean()
    cost.backward()
    optD.step()
for real, _ in loader:
    critic(real)
    with torch.autocast(device_type="cpu", dtype=torch.bfloat16):
        cost = -netD(netG(noise())).mean()
    cost.backward()
    optG.step()
""",
    ),
}


@pytest.mark.parametrize("name", ADVERSARIAL)
def test_each_forward_pass_of_adversarial_training(workshop, name: str) -> None:
    before, after = (GAN + text for text in ADVERSARIAL[name])
    shop = workshop(before, optimizers=(("Adam", 3), ("Adam", 4)))
    assert shop.edited("amp=bf16") == after
    again = replace(shop, files={**shop.files, "/project/train.py": after})
    assert again.plan("amp=bf16").edits == ()
