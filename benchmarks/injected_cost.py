"""Tests that Skyline shows a cost on its line, with known costs injected into scripts.

The examples, and a script with every kind of hook, get stretches that sleep or compute at typical places of training
code: a dataset, a layer's forward, hooks of the backward pass, an optimizer's hook, the loop itself. Each stretch
times itself with the script's own clock. The figure is the time that Skyline shows on that line over the time
that the script measured there.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import statistics
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from machine import Machine, warn_when_busy
from result_file import RESULTS, table, write

from skyline.analysis.analyse import analyse
from skyline.capture.request import CaptureRequest
from skyline.capture.session import capture

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
HOOKS = Path(__file__).resolve().parent / "injected_hooks.txt"
_TOLERANCE = 0.10
_MARK = "injected: "
_WAYS = {
    "sleep": "_time.sleep({s})",
    "spin": "while _time.perf_counter() < _began + {s}: sum(range(2000))",
}
_PRELUDE = """\
import json as _json, statistics as _statistics, time as _time
_spent, _steps = {}, [0]
def _note(place, began):
    _spent.setdefault(place, []).append((_time.perf_counter() - began) * 1e3)
def _step():
    _steps[0] += 1
    mean = {place: _statistics.median(all) * len(all) / _steps[0] for place, all in _spent.items()}
    print("injected: " + _json.dumps(mean), flush=True)
"""


@dataclass(frozen=True, slots=True)
class Shown:
    """One place: the injected time and the time that the line shows, in ms per iteration."""

    script: str
    way: str
    place: str
    injected_ms: float
    shown_ms: float

    @property
    def ratio(self) -> float:
        """The shown time over the injected time."""
        return self.shown_ms / self.injected_ms


def stretch(place: str, way: str, seconds: float, indent: str) -> list[str]:
    """Source lines that spend ``seconds`` seconds and record them. The middle line is the one to check."""
    spend = _WAYS[way].format(s=seconds)
    return [
        f"{indent}_began = _time.perf_counter()",
        f"{indent}{spend}  # spent: {place}",
        f"{indent}_note({place!r}, _began)",
    ]


def injected(source: str, way: str) -> str:
    """The source of a script with stretches at its dataset, a layer, its hooks, its optimizer and its loop."""
    lines = source.splitlines()
    added: dict[int, list[str]] = {}
    tree = ast.parse(source)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]

    def at_top_of(name: str, place: str, seconds: float) -> None:
        found = next((node for node in functions if node.name == name), None)
        if found is not None:
            first = found.body[0]
            added.setdefault(first.lineno, []).extend(stretch(place, way, seconds, " " * first.col_offset))

    at_top_of("__getitem__", "dataset", 0.0005)
    at_top_of("get_batch", "hand-written batch", 0.02)
    at_top_of("forward", "layer", 0.02)
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and ast.unparse(node).endswith(".backward()"):
            indent = " " * node.col_offset
            loss = ast.unparse(node)[: -len(".backward()")]
            added.setdefault(node.lineno, []).extend(
                [
                    *stretch("loop", way, 0.02, indent),
                    f"{indent}_step()",
                    f"{indent}{loss}.register_hook(_of_tensor)",
                ]
            )
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "optimizer":
            indent = " " * node.col_offset
            added.setdefault(node.end_lineno + 1, []).append(
                f"{indent}optimizer.register_step_pre_hook(_of_optimizer)"
            )
    text: list[str] = [
        *_PRELUDE.splitlines(),
        "def _of_tensor(gradient):",
        *stretch("tensor hook", way, 0.02, "    "),
        "def _of_optimizer(*_):",
        *stretch("optimizer hook", way, 0.02, "    "),
    ]
    for number, line in enumerate(lines, 1):
        text += added.get(number, [])
        text.append(line)
    return "\n".join(text) + "\n"


def hooks_script(way: str) -> str:
    """The script with every kind of hook: its ``SPEND(place)`` lines become stretches."""
    text = _PRELUDE.splitlines()
    for line in HOOKS.read_text(encoding="utf-8").splitlines():
        stripped = line.lstrip()
        if stripped.startswith("SPEND("):
            text += stretch(ast.literal_eval(stripped[6:-1]), way, 0.02, line[: -len(stripped)])
        else:
            text.append(line)
    return "\n".join(text) + "\n"


def measure(name: str, way: str, source: str, folder: Path) -> list[Shown]:
    """Profile a script with its stretches and compare, place by place."""
    script = folder / f"{name}_{way}.py"
    script.write_text(source, encoding="utf-8")
    printed: list[str] = []
    request = CaptureRequest(script, working_directory=folder, batch_points=0)
    profile = capture(request, progress=lambda _: None, output=printed.append)
    told = [line for line in "".join(printed).splitlines() if line.startswith(_MARK) and line.endswith("}")]
    spent: dict[str, float] = json.loads(told[-1][len(_MARK) :])
    numbers = {
        line.rpartition("# spent: ")[2]: number
        for number, line in enumerate(source.splitlines(), 1)
        if "# spent: " in line
    }
    costs = {row.line: row.self_ms for row in analyse(profile).lines if row.file}
    return [
        Shown(name, way, place, injected_ms, costs.get(numbers[place], 0.0))
        for place, injected_ms in spent.items()
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1, help="threads of each run")
    parser.add_argument("--name", default="injected_cost", help="name of the result files")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the result files")
    options = parser.parse_args()

    os.environ["OMP_NUM_THREADS"] = str(options.threads)
    machine = Machine.here()
    warn_when_busy(machine)
    shown: list[Shown] = []
    with tempfile.TemporaryDirectory() as folder:
        for way in _WAYS:
            scripts = {
                path.stem: injected(path.read_text(encoding="utf-8"), way) for path in EXAMPLES.glob("*.py")
            }
            scripts["hooks"] = hooks_script(way)
            for name, source in sorted(scripts.items()):
                found = measure(name, way, source, Path(folder))
                shown += found
                ratios = ", ".join(f"{one.place} {one.ratio:.3f}" for one in found)
                print(f"{name}, {way}: {ratios}", file=sys.stderr)
    off = [one for one in shown if abs(one.ratio - 1) > _TOLERANCE]
    rows = [
        [one.script, one.way, one.place, f"{one.injected_ms:.2f}", f"{one.shown_ms:.2f}", f"{one.ratio:.3f}"]
        for one in shown
    ]
    errors = [abs(one.ratio - 1) for one in shown]
    body = (
        f"{table(['script', 'way', 'place', 'injected, ms', 'shown, ms', 'shown / injected'], rows)}\n\n"
        f"{len(shown) - len(off)} of {len(shown)} within {_TOLERANCE:.0%}; median error "
        f"{statistics.median(errors):.1%}, largest {max(errors):.1%}. {options.threads} thread(s) per run."
    )
    print(write(options.name, "A known cost on its line", machine, body, [asdict(one) for one in shown],
                results=options.results))  # fmt: skip
    return 1 if off else 0


if __name__ == "__main__":
    sys.exit(main())
