"""Text of web pages is legible on every ground: contrast of at least 4.5 (WCAG 2.2, level AA), graphics of 3."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from importlib.resources import files

import pytest

from skyline.report.html import page

Colour = tuple[float, float, float]

STYLE = files(page.__package__ or "").joinpath("template/style.css").read_text()
LIVE = files("skyline.browser").joinpath("static/live.css").read_text()
TEXT = ("ink", "soft", "faint", "accent", "good", "bad", "warn")
CODE = ("ink", "soft", "faint", "code-key", "code-text", "code-number", "code-note", "code-name")
GRAPHICS = ("data", "forward", "backward", "optimizer", "communication", "other", "accent", "good", "bad")


def scheme(name: str) -> dict[str, Colour]:
    """The colours by name, ``heat`` among them."""
    light, dark = STYLE.split("@media (prefers-color-scheme: dark)", 1)
    texts = [light] if name == "light" else [light, dark.split("\n}\n", 1)[0]]
    found: dict[str, Colour] = {}
    for text in texts:
        for colour, digits in re.findall(r"--([a-z-]+): #([0-9a-f]{6})", text):
            red, green, blue = bytes.fromhex(digits)
            found[colour] = (red, green, blue)
        red, green, blue = map(float, re.findall(r"--heat: (\d+), (\d+), (\d+)", text)[-1])
        found["heat"] = (red, green, blue)
    return found


def mixed(share: float, top: Colour, ground: Colour) -> Colour:
    red, green, blue = (share * above + (1 - share) * below for above, below in zip(top, ground, strict=True))
    return red, green, blue


def luminance(colour: Colour) -> float:
    """Relative luminance of sRGB by WCAG 2.2."""
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in (value / 255 for value in colour)
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: Colour, other: Colour) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def too_faint(
    colours: Mapping[str, Colour], names: Sequence[str], grounds: Sequence[Colour], least: float
) -> dict[str, float]:
    worst = {name: min(contrast(colours[name], ground) for ground in grounds) for name in names}
    return {name: round(ratio, 2) for name, ratio in worst.items() if ratio < least}


@pytest.mark.parametrize("name", ["light", "dark"])
def test_texts_and_graphics_stand_out(name: str) -> None:
    colours = scheme(name)
    card = colours["card"]
    pointed_at = mixed(0.05, colours["accent"], card)
    assert too_faint(colours, TEXT, (colours["ground"], card, colours["track"], pointed_at), 4.5) == {}
    assert too_faint(colours, GRAPHICS, (card, colours["track"]), 3.0) == {}


@pytest.mark.parametrize("name", ["light", "dark"])
def test_code_stands_out_on_the_costliest_line(name: str) -> None:
    (share,) = re.findall(r"\.listing \.row \{[^}]*calc\(var\(--h, 0\) \* ([\d.]+)\)", STYLE)
    colours = scheme(name)
    hottest = mixed(float(share), colours["heat"], colours["card"])
    assert too_faint(colours, CODE, (colours["card"], hottest), 4.5) == {}


@pytest.mark.parametrize("name", ["light", "dark"])
def test_the_panel_of_the_served_page_stands_out(name: str) -> None:
    colours = scheme(name)
    shares = [int(share) / 100 for share in re.findall(r"var\(--accent\) (\d+)%", LIVE)]
    assert len(shares) == 2, "pointed at, and switched on"
    rows = [mixed(share, colours["accent"], colours["card"]) for share in shares]
    assert too_faint(colours, ("ink", "soft", "accent", "good", "bad"), rows, 4.5) == {}
    assert "button-foreground: var(--ground); --vscode-button-background: var(--accent)" in LIVE
    assert too_faint(colours, ("ground",), (colours["accent"],), 4.5) == {}
    # The parts of a bar up to the present batch size; they let a quarter of the ground through.
    bar = {"bar": mixed(0.75, colours["accent"], colours["track"])}
    assert too_faint(bar, ("bar",), (colours["track"],), 3.0) == {}
