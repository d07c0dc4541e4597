"""The cost of the VS Code extension for the editor: its activation, and an idle window.

Usage: ``python extension_cost.py --vsix extension/skyline.vsix``, after ``make test-extension`` has installed its
requirements. The CPU time is the time of the extension host, which runs all extensions of a window, with and without
Skyline's.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import result_file
from machine import Machine

REPOSITORY = Path(__file__).resolve().parent.parent
SCRIPT = REPOSITORY / "extension" / "e2e" / "cost.mjs"
GOAL_MS = 100


def main() -> None:
    """Measure in a real VS Code, and write the page."""
    parser = argparse.ArgumentParser(description="The cost of the VS Code extension for the editor.")
    parser.add_argument("--vsix", type=Path, default=REPOSITORY / "extension" / "skyline.vsix")
    parser.add_argument(
        "--extension", type=Path, default=SCRIPT, help="the measuring script, next to its npm packages"
    )
    parser.add_argument("--windows", type=int, default=7)
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--results", type=Path, default=result_file.RESULTS)
    asked = parser.parse_args()
    here = Machine.here()
    numbers = ["--windows", str(asked.windows), "--seconds", str(asked.seconds)]
    command = ["node", str(asked.extension), "--vsix", str(asked.vsix), "--python", sys.executable, *numbers]
    figures = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    title = "Cost of the VS Code extension for the editor"
    print(result_file.write("extension_cost", title, here, page(figures), figures, results=asked.results))


def page(figures: dict[str, Any]) -> str:
    """The figures as tables."""
    start = result_file.table(
        ["start", "times", "median, ms", "longest, ms"],
        [
            [name, str(len(values)), f"{statistics.median(values):.1f}", f"{max(values):.1f}"]
            for name, values in (
                ("load the extension's file", figures["loadMs"]),
                ("activate it", figures["activationMs"]),
            )
        ],
    )
    training = figures["training"]
    idle = result_file.table(
        ["idle window", "process", "CPU time, ms per s"],
        [
            [window, process, f"{found['cpuMsPerS']:.1f}"]
            for window, process, found in (
                ("without the extension", "extension host", figures["withoutExtension"]),
                ("a Python file that imports no PyTorch", "extension host", figures["plain"]),
                ("a training script with its profile and the view", "extension host", training["host"]),
                ("a training script with its profile and the view", "language server", training["server"]),
            )
        ],
    )
    servers = figures["serversInPlainWindow"]
    return (
        f"{start}\n\nThe goal is {GOAL_MS} ms for both together. The language client is not included, "
        f"because it is loaded with the first training script.\n\n{idle}\n\nEach row covers "
        f"{figures['seconds']} s. The system counts in steps of 10 ms. Servers that run for the file without "
        f"PyTorch: {servers}."
    )


if __name__ == "__main__":
    main()
