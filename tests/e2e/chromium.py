"""A real browser, and ``skyline serve`` for its pages: fixtures of the tests in this folder."""

from __future__ import annotations

import base64
import itertools
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

BRIEF = Path(__file__).resolve().parents[1] / "brief_measurements.py"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
WAIT_S = 60
CONNECT = """
import os, sys
# The browser reads from 3 and writes to 4; the pipes may have one of these numbers already.
reading, writing = os.dup(int(sys.argv[1])), os.dup(int(sys.argv[2]))
os.dup2(reading, 3)
os.dup2(writing, 4)
for descriptor in (3, 4):
    os.set_inheritable(descriptor, True)
os.execvp(sys.argv[3], sys.argv[3:])
"""


class Browser:
    """A headless Chromium, spoken to over its DevTools pipe."""

    panel = "document.getElementById('panel').shadowRoot"
    """The bars and switches of ``skyline serve``."""

    def __init__(self, program: str, folder: Path) -> None:
        to_browser, from_us = os.pipe()
        from_browser, to_us = os.pipe()

        options = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run")
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-c", CONNECT, str(to_browser), str(to_us)),
                *(program, *options, "--remote-debugging-pipe", f"--user-data-dir={folder}"),
            ],
            pass_fds=(to_browser, to_us),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(to_us)
        self._out, self._in = os.fdopen(from_us, "wb"), os.fdopen(from_browser, "rb")
        self._ids = itertools.count(1)
        self._rest = b""
        self._session = ""
        self.errors: list[str] = []
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        attached = self._call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Runtime", "Log", "Page"):
            self._call(f"{domain}.enable")

    def open(self, url: str) -> None:
        self._call("Page.navigate", url=url)
        self.until("location.href !== 'about:blank' && document.readyState === 'complete'")

    def tell(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page."""
        found = self._call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def until(self, expression: str) -> Any:
        deadline = time.monotonic() + WAIT_S
        while not (value := self.tell(f"!!({expression})")):
            assert time.monotonic() < deadline, f"{expression}; the page reads: {self.text('body')[:500]}"
            time.sleep(0.05)
        return value

    def resize(self, width: int, height: int) -> None:
        """The page in a window of this size in pixels."""
        size = {"width": width, "height": height, "deviceScaleFactor": 0, "mobile": width < 500}
        self._call("Emulation.setDeviceMetricsOverride", **size)

    def text(self, selector: str, within: str = "document") -> str:
        return self.tell(f"{within}.querySelector({selector!r})?.innerText ?? ''")

    def drag(self, bar: str, to: float) -> None:
        """Drag a bar of the panel from its middle to a share of its width, by the mouse."""
        track = f"{self.panel}.querySelector('[data-bar={bar}] .track')"
        self.tell(f"{track}.scrollIntoView({{ block: 'center', behavior: 'instant' }})")
        found = f"(({{ left, top, width, height }}) => [left, top, width, height])({track}.getBoundingClientRect())"
        left, top, width, height = self.tell(found)
        places = [left + width * (0.5 + (to - 0.5) * step / 8) for step in range(9)]
        kinds = ("mousePressed", *["mouseMoved"] * 7, "mouseReleased")
        for kind, x in zip(kinds, places, strict=True):
            at = {"x": x, "y": top + height / 2, "button": "left", "buttons": 1, "clickCount": 1}
            self._call("Input.dispatchMouseEvent", type=kind, **at)

    def picture(self, name: str) -> None:
        """Keep the page as a window of 1100 pixels shows it, where pictures are wanted."""
        if folder := os.environ.get("SKYLINE_TASK_PICTURES"):
            self.resize(1100, 1000)
            self.tell("scrollTo({ top: 0, behavior: 'instant' })")
            taken = self._call("Page.captureScreenshot", format="png")
            Path(folder, name).write_bytes(base64.b64decode(taken["data"]))

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(10)
        self._out.close()
        self._in.close()

    def _call(self, method: str, **params: Any) -> Any:
        number = next(self._ids)
        message = {"id": number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        self._out.write(json.dumps(message).encode() + b"\0")
        self._out.flush()
        while True:
            told = self._receive()
            if told.get("id") == number:
                assert "error" not in told, told["error"]
                return told["result"]
            if told.get("method") == "Runtime.exceptionThrown":
                self.errors.append(told["params"]["exceptionDetails"]["text"])
            if told.get("method") == "Log.entryAdded" and told["params"]["entry"]["level"] == "error":
                self.errors.append(told["params"]["entry"]["text"])

    def _receive(self) -> Any:
        while b"\0" not in self._rest:
            piece = os.read(self._in.fileno(), 1 << 16)
            assert piece, "the browser is gone"
            self._rest += piece
        message, _, self._rest = self._rest.partition(b"\0")
        return json.loads(message)


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    program = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if program is None:
        pytest.skip(f"none of {', '.join(BROWSERS)} is installed: apt-get install chromium")
    opened = Browser(program, tmp_path_factory.mktemp("browser"))
    yield opened
    opened.close()


@pytest.fixture
def browser(chromium: Browser) -> Browser:
    """The browser of all tests here, on an empty page; what the page before complained of is forgotten."""
    chromium._call("Page.navigate", url="about:blank")
    chromium.until("location.href === 'about:blank'")
    chromium.errors.clear()
    return chromium


Serve = Callable[..., str]


@pytest.fixture
def serve(brief_start: None) -> Iterator[Serve]:
    running: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> str:
        command = [sys.executable, str(BRIEF), "serve", "--no-browser", *arguments]
        folder = Path(arguments[-1]).parent
        process = subprocess.Popen(
            command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        running.append(process)
        assert process.stdout is not None
        return process.stdout.readline().strip()

    yield start
    for process in running:
        process.terminate()
        _, said = process.communicate(timeout=20)
        assert "Traceback" not in said
