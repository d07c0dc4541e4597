"""Attention in many spellings becomes one call that gives the same numbers, or stays with a reason."""

from __future__ import annotations

import ast

import pytest

HEAD = """\
import math
import torch
import torch.nn as nn
import torch.nn.functional as F

class Attention(nn.Module):
    def __init__(self, n=12, width=8):
        super().__init__()
        self.scale = width ** -0.25
        self.soft = nn.Softmax(dim=-1)
        self.drop = nn.Dropout(0.0)
        self.temperature = nn.Parameter(torch.ones(1))
        self.register_buffer("bias", torch.tril(torch.ones(n, n)).view(1, 1, n, n))
        self.register_buffer("upper", torch.triu(torch.ones(n, n), diagonal=1).bool())
        self.register_buffer("band", torch.tril(torch.ones(n, n), diagonal=1))

    def forward(self, q, k, v, mask=None):
        T = q.size(-2)
"""
Q, CALL = "q @ k.transpose(-2, -1)", "F.scaled_dot_product_attention"
MASKED = "        att = att.masked_fill({}, float('-inf'))\n"

REWRITTEN = {
    "a GPT of many files": (
        (
            "        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))\n"
            "        att = att.masked_fill(self.bias[:,:,:T,:T] == 0, float('-inf'))\n"
            "        att = F.softmax(att, dim=-1)\n"
            "        att = self.drop(att)\n"
            "        y = att @ v  # (B, H, T, D)\n"
            "        return y\n"
        ),
        (
            f"        y = {CALL}(q, k, v, is_causal=True, dropout_p=self.drop.p if self.training else 0.0)"
            "  # (B, H, T, D)\n"
        ),
    ),
    "steps that share a line": (
        f"        a = {Q}; a = a / math.sqrt(q.size(-1)); a = F.softmax(\n a, dim=-1)  # one\n        return a @ v\n",
        f"        return {CALL}(q, k, v)\n",
    ),
    "in one expression": (
        f"        return F.softmax(({Q}) / math.sqrt(q.shape[-1]), dim=-1) @ v\n",
        f"        return {CALL}(q, k, v)\n",
    ),
    "matmul, a module, and a scale of its own": (
        (
            "        dots = torch.matmul(q, k.transpose(-1, -2)) * self.scale\n"
            "        attn = self.soft(dots)\n"
            "        attn = self.drop(attn)\n"
            "        out = torch.matmul(attn, v)\n"
            "        return out\n"
        ),
        f"        out = {CALL}(q, k, v, dropout_p=self.drop.p if self.training else 0.0, scale=self.scale)\n",
    ),
    "queries scaled beforehand": (
        (
            "        q = q * 0.5\n"
            "        w = torch.softmax(torch.matmul(q, k.mT), -1)\n"
            "        return w.matmul(v)\n"
        ),
        f"        q = q * 0.5\n        return {CALL}(q, k, v, scale=1.0)\n",
    ),
    "einsum, and an upper triangle": (
        (
            "        scores = torch.einsum('bhid,bhjd->bhij', q, k) * 0.25\n"
            "        scores = scores.masked_fill(self.upper[:T, :T], -1e9)\n"
            "        return torch.einsum('bhij,bhjd->bhid', scores.softmax(dim=-1), v)\n"
        ),
        f"        return {CALL}(q, k, v, is_causal=True, scale=0.25)\n",
    ),
    "a mask that is given": (
        (
            f"        scores = {Q} / math.sqrt(q.size(-1))\n"
            "        scores = scores.masked_fill(mask == 0, -math.inf)\n"
            "        return F.softmax(scores, dim=-1) @ v\n"
        ),
        f"        return {CALL}(q, k, v, attn_mask=mask != 0)\n",
    ),
    "where, and a cast": (
        (
            f"        scores = torch.where(mask > 0, {Q}, float('-inf'))\n"
            "        att = F.softmax(scores.float(), dim=-1).type_as(q)\n"
            "        return att @ v\n"
        ),
        f"        return {CALL}(q, k, v, attn_mask=mask > 0, scale=1.0)\n",
    ),
    "a mask that is added": (
        f"        att = F.softmax({Q} * k.shape[-1] ** -0.5 + mask, dim=-1)\n        return att @ v\n",
        f"        return {CALL}(q, k, v, attn_mask=mask)\n",
    ),
    "a triangle made on the spot": (
        (
            "        tri = torch.tril(torch.ones(T, T, device=q.device))\n"
            f"        att = ({Q}) / 2\n"
            "        att = att.masked_fill(tri == 0, float('-inf')).softmax(-1)\n"
            "        return att @ v\n"
        ),
        f"        return {CALL}(q, k, v, is_causal=True, scale=1.0 / 2)\n",
    ),
    "keys that lie transposed": (
        "        kt = k.transpose(2, 3)\n        kt = kt + 0.0\n        return F.softmax(q @ kt, -1) @ v\n",
        "        kt = kt + 0.0\n        return F.scaled_dot_product_attention(q, kt.transpose(-2, -1), v, scale=1.0)\n",
    ),
    "a mask that is no triangle": (
        f"        att = ({Q}) * 0.5\n{MASKED.format('self.band[:T, :T] == 0')}        return F.softmax(att, -1) @ v\n",
        f"        return {CALL}(q, k, v, attn_mask=self.band[:T, :T] != 0, scale=0.5)\n",
    ),
    "a triangle that is cut unevenly": (
        (
            f"        att = ({Q}) * 0.5\n{MASKED.format('self.bias[:, :, :T, :k.size(-2)] == 0')}"
            "        return F.softmax(att, -1) @ v\n"
        ),
        f"        return {CALL}(q, k, v, attn_mask=self.bias[:, :, :T, :k.size(-2)] != 0, scale=0.5)\n",
    ),
    "a mask of what counts": (
        f"        att = {Q}\n{MASKED.format('~mask.bool()')}        return F.softmax(att, -1) @ v\n",
        f"        return {CALL}(q, k, v, attn_mask=mask.bool(), scale=1.0)\n",
    ),
    "a mask that is compared otherwise": (
        f"        att = {Q}\n{MASKED.format('mask != 1')}        return F.softmax(att, -1) @ v\n",
        f"        return {CALL}(q, k, v, attn_mask=mask == 1, scale=1.0)\n",
    ),
    "a mask of what is hidden": (
        f"        att = {Q}\n{MASKED.format('(1 - mask).bool()')}        return F.softmax(att, -1) @ v\n",
        f"        return {CALL}(q, k, v, attn_mask=(1 - mask).bool().logical_not(), scale=1.0)\n",
    ),
    "an upper triangle that is compared": (
        f"        att = {Q}\n{MASKED.format('self.upper[:T, :T] != 0')}        return F.softmax(att, -1) @ v\n",
        f"        return {CALL}(q, k, v, is_causal=True, scale=1.0)\n",
    ),
    "a triangle by a method, turned": (
        (
            f"        att = {Q}\n{MASKED.format('torch.ones(T, T).tril().logical_not()')}"
            "        return F.softmax(att, -1) @ v\n"
        ),
        f"        return {CALL}(q, k, v, is_causal=True, scale=1.0)\n",
    ),
    "a triangle turned by a function": (
        (
            f"        low = torch.tril(torch.ones(T, T).float())\n        att = {Q}\n"
            f"{MASKED.format('torch.logical_not(low)')}        return F.softmax(att, -1) @ v\n"
        ),
        f"        return {CALL}(q, k, v, is_causal=True, scale=1.0)\n",
    ),
    "the width by a name": (
        f"        d = q.size(-1)\n        return F.softmax(({Q}) / d ** 0.5, dim=-1) @ v\n",
        f"        d = q.size(-1)\n        return {CALL}(q, k, v)\n",
    ),
    "a scale that is computed": (
        f"        return F.softmax(({Q}) * (2.0 / math.sqrt(q.size(-1) * 4)), dim=-1) @ v\n",
        f"        return {CALL}(q, k, v, scale=2.0 / math.sqrt(q.size(-1) * 4))\n",
    ),
    "twice the usual scale": (
        f"        return F.softmax(({Q}) * (2.0 / math.sqrt(q.size(-1))), dim=-1) @ v\n",
        f"        return {CALL}(q, k, v, scale=2.0 / math.sqrt(q.size(-1)))\n",
    ),
    "a scale by a name": (
        f"        factor = -(-0.5)\n        return F.softmax(({Q}) * factor, dim=-1) @ v\n",
        f"        return {CALL}(q, k, v, scale=factor)\n",
    ),
    "functional dropout": (
        f"        att = F.dropout(F.softmax({Q}, dim=-1), p=0.0, training=self.training)\n        return att @ v\n",
        f"        return {CALL}(q, k, v, dropout_p=0.0 if self.training else 0.0, scale=1.0)\n",
    ),
}  # fmt: skip

REFUSED = {
    "weights are returned": (f"        att = F.softmax({Q}, dim=-1)\n        return att @ v, att\n", "used on line"),
    "a step under a condition": (
        (
            f"        att = {Q}\n        if mask is not None:\n            att = att.masked_fill(mask == 0, -1e9)\n"
            "        return F.softmax(att, dim=-1) @ v\n"
        ),
        "changed under a condition",
    ),
    "a scale that learns": (
        f"        return F.softmax({Q} * self.temperature, dim=-1) @ v\n",
        "`self.temperature` is not known to be a plain number",
    ),
    "hidden scores that count": (
        f"        att = ({Q}).masked_fill(mask == 0, -5.0)\n        return F.softmax(att, dim=-1) @ v\n",
        "set to `-5.0`",
    ),
    "a mask that is scaled": (
        f"        return F.softmax(({Q} + mask) * 0.5, dim=-1) @ v\n",
        "added before the scores are scaled",
    ),
    "two masks": (
        (
            f"        att = ({Q}).masked_fill(mask == 0, -math.inf)\n{MASKED.format('self.upper')}"
            "        return F.softmax(att, -1) @ v\n"
        ),
        "more than one mask",
    ),
    "no product": ("        return F.softmax(q, dim=-1)\n", "in no matrix product"),
    "something in between": (
        f"        att = F.softmax({Q}, dim=-1)\n        att = att / att.sum()\n        return att @ v\n",
        "something lies between",
    ),
    "queries bound anew": (
        f"        att = F.softmax({Q}, dim=-1)\n        q = q + 1\n        y = att @ v\n        return y + q\n",
        "assigned again",
    ),
    "two scales": (f"        return F.softmax(({Q}) * 0.5 / 2, dim=-1) @ v\n", "scaled more than once"),
    "outside of a function": (f"\ny = F.softmax({Q}, dim=-1) @ v\n", "outside of any function"),
    "a softmax that nothing multiplies": (f"        return F.softmax({Q}, dim=-1)\n", "in no matrix product"),
    "a scale that is a tensor": (
        f"        return F.softmax(({Q}) * torch.tensor(0.5), dim=-1) @ v\n",
        "`torch.tensor(0.5)` is not known to be a plain number",
    ),
    "softmax over no dimension": (f"        return F.softmax({Q}) @ v\n", "No hand-written attention"),
    "another softmax": (f"        return F.softmax({Q}, dim=1) @ v\n", "No hand-written attention"),
}  # fmt: skip


def outcome(source, mask):
    import torch

    names = {}
    exec(compile(source, "attention.py", "exec"), names)
    torch.manual_seed(3)
    model = names["Attention"]()
    q, k, v = (torch.randn(2, 3, 12, 8, requires_grad=True) for _ in range(3))
    result = model(q, k, v, mask)
    result.square().sum().backward()
    return [result.detach(), *(each.grad for each in (q, k, v))]


@pytest.mark.parametrize("name", REWRITTEN)
def test_rewritten_and_the_same_numbers(workshop, name):
    import torch

    body, expected = REWRITTEN[name]
    edited = workshop(HEAD + body).edited("sdpa")
    ast.parse(edited)
    assert expected in edited
    assert edited.startswith(HEAD)
    assert "softmax(" not in edited[len(HEAD) :]
    mask = torch.ones(12, 12)
    mask[:, 7:] = 0
    for before, after in zip(outcome(HEAD + body, mask), outcome(edited, mask), strict=True):
        # Fused kernels of processors without AVX-512 round up to 3e-5 differently.
        assert torch.allclose(before, after, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", REWRITTEN)
def test_a_second_time_changes_nothing(workshop, name):
    edited = workshop(HEAD + REWRITTEN[name][0]).edited("sdpa")
    assert workshop(edited).edited("sdpa") == edited


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_a_snippet(workshop, name):
    body, reason = REFUSED[name]
    planned = workshop(HEAD + body).plan("sdpa")
    assert planned.edits == ()
    assert reason in planned.refused[0].reason
    assert "scaled_dot_product_attention" in planned.refused[0].snippet


def test_it_takes_no_value(workshop):
    assert "not a value" in workshop(HEAD).reason("sdpa=maybe")


def test_three_dimensions_get_a_fourth(workshop):
    import torch

    body = "        a = torch.bmm(q, k.transpose(1, 2)) * 0.5\n        return torch.bmm(torch.softmax(a, -1), v)\n"
    edited = workshop(HEAD + body).edited("sdpa")
    parts = "q.unsqueeze(0), k.unsqueeze(0), v.unsqueeze(0), scale=0.5"
    assert f"        return {CALL}({parts}).squeeze(0)\n" in edited
    names, other = {}, {}
    exec(HEAD + body, names)
    exec(edited, other)
    q, k, v = (torch.randn(6, 12, 8) for _ in range(3))
    assert torch.allclose(names["Attention"]()(q, k, v), other["Attention"]()(q, k, v), atol=1e-5)


def test_other_names_tabs_and_line_ends_stay(workshop):
    source = (
        "import torch as t\r\nfrom torch import nn\r\nclass A(nn.Module):\r\n\tdef forward(this, q, k, v):\r\n"
        "\t\t# scores\r\n\t\tw = t.softmax(q @ k.transpose(-2, -1), dim=-1)  # é\r\n\t\treturn w @ v\r\n"
    )
    edited = workshop(source).edited("sdpa")
    assert "\t\treturn nn.functional.scaled_dot_product_attention(q, k, v, scale=1.0)\r\n" in edited
    assert "\t\t# scores\r\n" in edited
    assert edited.count("\r\n") == edited.count("\n")
