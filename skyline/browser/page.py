"""The page of the report with what makes it live: news from the server, and questions to it."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined

from skyline import units
from skyline.browser.subject import Shown
from skyline.report import html
from skyline.whatif.estimate import Estimate

_NEWS = "<main>"


def live_page(shown: Shown | None, script: str) -> str:
    """The report with a panel to ask from above it; a page that waits while there is no profile."""
    environment = Environment(
        loader=PackageLoader("skyline.browser", "static"), autoescape=True, undefined=StrictUndefined
    )
    if shown is None:
        return environment.get_template("waiting.html").render(script=script)
    report = shown.report
    panel = environment.get_template("panel.html").render(
        number=shown.number,
        batch_size=report.batch_size.value,
        whatifs=[
            one for one in shown.whatifs.estimates if one.applicable and one.name not in ("batch_size", "gpu")
        ],
    )
    page = html.render(report, shown.whatifs, shown.analysis.profile.sources)
    page = page.replace("</head>", '<link rel="stylesheet" href="live.css"></head>', 1)
    page = page.replace(_NEWS, _NEWS + panel, 1)
    return page.replace("</body>", '<script src="live.js"></script></body>', 1)


def static(name: str) -> bytes:
    """A file that the page loads from here."""
    return files("skyline.browser").joinpath("static", name).read_bytes()


def answer(found: Estimate, shown: Shown) -> Mapping[str, object]:
    """A prediction in words, for the panel."""
    if not found.applicable:
        return {"text": f"Does not apply. {found.reason or ''}", "applicable": False}
    now = shown.whatifs.baseline
    delta = units.format_ms_delta(found.iteration_ms.value - now.iteration_ms.value)
    parts = [f"{units.format_ms_interval(found.iteration_ms)} per iteration ({delta})"]
    if found.throughput is not None:
        parts.append(units.format_throughput_interval(found.throughput))
    parts.append(f"{units.format_bytes(found.peak.value)} at the peak")
    return {
        "text": "Predicted: " + " · ".join(parts),
        "applicable": True,
        "iteration_ms": found.iteration_ms.value,
        "assumptions": list(found.assumptions),
    }
