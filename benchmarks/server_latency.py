"""Measures how long an editor waits for lenses, hints, hovers, code actions and diagnostics of a large script.

Starts the real language server over pipes and profiles a generated script of 3,000 lines whose trace has a hundred
thousand tasks. Then it sends the requests of an editor in turns: to an idle server, after every keystroke, and while
the same script is profiled again, until its curve is being measured. Times are measured in the client, from sending the
request to the last byte of the answer. The server sends diagnostics without a request: their wait is from the keystroke
to the next answer, which comes after them.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fuzz_client import Broken, Client
from machine import Machine, warn_when_busy
from result_file import RESULTS, table, write

LINES, TURNS = 3000, 18
GOAL_MS = 20.0
BETWEEN_S = 0.01
PROFILE_WAIT_S = 280.0
KINDS = ("code lens", "inlay hints", "hover", "code action", "diagnostics")


def script(lines: int) -> str:
    """A training script of ``lines`` lines, most of which are an operator on a small tensor."""
    head = [
        "import torch",
        "from torch.utils.data import DataLoader, TensorDataset",
        "",
        "torch.manual_seed(0)",
        "torch.set_num_threads(1)",
        "data = TensorDataset(torch.randn(4096, 16))",
        "loader = DataLoader(data, batch_size=32, shuffle=True)",
        "weight = torch.nn.Parameter(torch.ones(16))",
        "optimizer = torch.optim.Adam([weight], lr=1e-3)",
        "",
    ]
    tail = ["", "for epoch in range(100):", "    for (x,) in loader:", "        optimizer.zero_grad()"]
    tail += [f"        for turn in range({TURNS}):"]
    body: list[str] = []
    calls: list[str] = []
    operators = ("x = x * weight", "x = torch.relu(x)", "x = x + weight", "x = torch.tanh(x)")
    number = 0
    while len(head) + len(body) + len(tail) + len(calls) + 12 + 4 < lines:
        body += ["", "", f"def block_{number}(x):"]
        body += [f"    {operators[line % 4]}" for line in range(9)]
        body += ["    return x"]
        calls.append(f"            x = block_{number}(x)")
        number += 1
    end = ["        loss = x.square().mean()", "        loss.backward()", "        optimizer.step()", ""]
    return "\n".join([*head, *body, *tail, *calls, *end])


class Editor:
    """A client with one document open."""

    def __init__(self, root: Path, path: Path) -> None:
        self.client = Client([sys.executable, "-m", "skyline_lsp"], root, root / "server.log")
        self.uri, self.text, self._version, self._number = path.as_uri(), path.read_text(), 1, 0
        self.news: list[dict[str, Any]] = []
        able: dict[str, Any] = {
            "window": {"workDoneProgress": True},
            "workspace": {"applyEdit": True},
            "textDocument": {"codeAction": {"disabledSupport": True}},
        }
        options = {"profile": {"onSave": "never", "steps": 8}}
        params = {
            "processId": None,
            "rootUri": root.as_uri(),
            "capabilities": able,
            "initializationOptions": options,
        }
        self.ask("initialize", params)
        self._tell("initialized", {})
        item = {"uri": self.uri, "languageId": "python", "version": 1, "text": self.text}
        self._tell("textDocument/didOpen", {"textDocument": item})

    def ask(self, method: str, params: Any, timeout_s: float = 120.0) -> tuple[Any, float]:
        """Send a request. Returns the answer, and the wait for it in ms."""
        self._number += 1
        began = time.perf_counter()
        self.client.send({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params})
        while True:
            message = self._next(timeout_s)
            if message is None:
                raise Broken(f"no answer to {method}")
            if "method" not in message:
                if "error" in message:
                    raise Broken(f"{method}: {message['error']}")
                return message["result"], (message["arrived"] - began) * 1e3

    def keystroke(self, number: int) -> None:
        """Change a comment at the end of a line, like a typing user."""
        lines = self.text.split("\n")
        line = 40 + number % 2000
        lines[line] = f"{lines[line].partition('  # ')[0]}  # {number}"
        self.text = "\n".join(lines)
        self._version += 1
        document = {"uri": self.uri, "version": self._version}
        self._tell(
            "textDocument/didChange", {"textDocument": document, "contentChanges": [{"text": self.text}]}
        )

    def wait(self, kind: str, number: int, *, typing: bool) -> float:
        """One wait in ms."""
        named = {"textDocument": {"uri": self.uri}}
        first = (97 * number) % (LINES - 60)
        shown = {"start": {"line": first, "character": 0}, "end": {"line": first + 60, "character": 0}}
        if typing or kind == "diagnostics":
            self.keystroke(number)
        if kind == "code lens":
            return self.ask("textDocument/codeLens", named)[1]
        if kind == "inlay hints":
            return self.ask("textDocument/inlayHint", {**named, "range": shown})[1]
        if kind == "code action":
            loop = self.text.count("\n", 0, self.text.index("loader = ")) if number % 2 else first
            place = {"line": loop, "character": 4}
            context = {"diagnostics": []}
            return self.ask(
                "textDocument/codeAction",
                {**named, "range": {"start": place, "end": place}, "context": context},
            )[1]
        # After a keystroke, the answer to the hover follows the diagnostics.
        return self.ask("textDocument/hover", {**named, "position": {"line": first + 7, "character": 6}})[1]

    def run(self) -> Iterator[dict[str, Any] | None]:
        """Profile the script. Yields the server's messages, and sometimes None, until the run has ended."""
        self.ask(
            "workspace/executeCommand",
            {"command": "skyline.profile", "arguments": [self.uri, {"batchPoints": 1}]},
        )
        end = time.monotonic() + PROFILE_WAIT_S
        while time.monotonic() < end:
            yield self._next(0.0)
            for message in self.news:
                value = message["params"].get("value") if message["method"] == "$/progress" else None
                if isinstance(value, dict) and value.get("kind") == "end":
                    self.news.clear()
                    print(value.get("message"), file=sys.stderr)
                    return
            self.news.clear()
        raise Broken("the profile was not done in time")

    def _next(self, timeout_s: float) -> dict[str, Any] | None:
        message = self.client.next(timeout_s)
        if message is not None and "method" in message:
            self.news.append(message)
            if "id" in message:
                self.client.send({"jsonrpc": "2.0", "id": message["id"], "result": None})
        return message

    def _tell(self, method: str, params: Any) -> None:
        self.client.send({"jsonrpc": "2.0", "method": method, "params": params})


def measure(rounds: int) -> tuple[dict[tuple[str, str], list[float]], int]:
    """Waits in ms by state and kind, and the number of tasks in the trace."""
    waits: dict[tuple[str, str], list[float]] = {}

    def ask_all(editor: Editor, state: str, number: int, *, typing: bool) -> None:
        for kind in KINDS:
            time.sleep(BETWEEN_S)
            waits.setdefault((state, kind), []).append(editor.wait(kind, number, typing=typing))

    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        path = root / "large.py"
        path.write_text(script(LINES))
        editor = Editor(root, path)
        try:
            for _ in editor.run():
                time.sleep(0.05)
            for number in range(rounds):
                ask_all(editor, "idle", number, typing=False)
            for number in range(rounds):
                ask_all(editor, "after each keystroke", number, typing=True)
            for number, _ in enumerate(editor.run()):
                ask_all(editor, "while it is profiled", number, typing=number % 2 == 0)
            tasks = _tasks(editor)
            editor.client.stop()
        finally:
            editor.client.kill()
    return waits, tasks


def _tasks(editor: Editor) -> int:
    from skyline.analysis.analyse import analyse
    from skyline.trace import store

    saved = store.latest(Path(editor.uri.removeprefix("file://")))
    assert saved is not None
    return len(analyse(store.load(saved)).baseline.graph)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--rounds", type=int, default=100, help="requests of each kind, where nothing is profiled"
    )
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the result files")
    options = parser.parse_args()
    machine = Machine.here()
    warn_when_busy(machine)
    waits, tasks = measure(options.rounds)
    rows: list[list[str]] = []
    figures: list[dict[str, object]] = []
    for (state, kind), found in waits.items():
        cuts = statistics.quantiles(found, n=100, method="inclusive")
        figure = {"p50": statistics.median(found), "p95": cuts[94], "p99": cuts[98], "max": max(found)}
        rows.append([state, kind, str(len(found)), *(f"{value:.1f}" for value in figure.values())])
        figures.append({"state": state, "kind": kind, "waits_ms": found, **figure})
    head = ["state", "asked for", "times", "p50, ms", "p95, ms", "p99, ms", "longest, ms"]
    over = sum(float(row[4]) > GOAL_MS for row in rows)
    body = (
        f"{table(head, rows)}\n\n{LINES} lines, {tasks} tasks. The goal is {GOAL_MS:.0f} ms at the 95th "
        f"percentile. {over} of {len(rows)} rows miss it. A request for hints covers 60 lines, about one "
        "screen."
    )
    print(
        write(
            "server_latency",
            "Waits of an editor for the language server",
            machine,
            body,
            figures,
            results=options.results,
        )
    )
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
