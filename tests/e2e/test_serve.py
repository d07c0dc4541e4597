"""``skyline serve`` in a real browser: the report, questions to it, and a newer profile that appears by itself."""

from __future__ import annotations

import base64
import gzip
import itertools
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from skyline.trace import store
from skyline.trace.profile import Profile

pytestmark = pytest.mark.xdist_group("browser")

BRIEF = Path(__file__).resolve().parents[1] / "brief_measurements.py"
RECORDED = Path(__file__).resolve().parents[1] / "data" / "linear.profile.json.gz"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
WAIT_S = 60
PANEL = "document.getElementById('panel').shadowRoot"
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
        track = f"{PANEL}.querySelector('[data-bar={bar}] .track')"
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


@pytest.fixture(scope="module")
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


@pytest.fixture
def here(tmp_path: Path) -> Profile:
    """The recorded profile as one of a script in a folder of its own."""
    text = gzip.decompress(RECORDED.read_bytes()).decode().replace("/tmp/project", str(tmp_path.resolve()))
    profile = msgspec.json.decode(text, type=Profile)
    Path(profile.script).write_text(profile.sources[0].text)
    return profile


def test_it_shows_answers_and_keeps_current(browser: Browser, serve: Serve, here: Profile) -> None:
    url = serve("--saved", here.script)
    assert url.startswith("http://127.0.0.1:")
    browser.open(url)
    browser.until("document.body.innerText.includes('Waiting for the first profile of train.py')")

    store.save(here)
    browser.until("document.querySelector('.figures')")
    assert browser.text(".predicted", PANEL) == ""
    assert "0.49 ms" in browser.text(".figures").replace("\n", " ")
    assert "optimizer.step()" in browser.text("main")
    assert browser.tell("getComputedStyle(document.querySelector('.figures')).display") != "block", "styled"

    browser.drag("throughput", 0.95)
    predicted = f"{PANEL}.querySelector('.predicted').innerText"
    browser.until(f"{predicted}.startsWith('Predicted: ')")
    alone = browser.tell(predicted)
    switch = f"{PANEL}.querySelector('[data-key=\"whatif fused_optimizer\"]')"
    browser.tell(f"{switch}.click()")
    browser.until(f"{predicted} !== {json.dumps(alone)}")
    assert "samples/s" in browser.tell(predicted)
    size = f"{PANEL}.querySelector('input[type=number]').value"
    chosen = browser.tell(size)
    assert chosen != str(here.batch_size)

    # A newer profile, as by another program, takes its place without a reload.
    browser.tell("window.stayed = true")
    newer = replace(
        here, id="newer", times=replace(here.times, steps_ms=tuple(9.0 for _ in here.times.steps_ms))
    )
    store.save(newer)
    browser.until("document.querySelector('.figures').innerText.includes('9.00')")
    assert browser.tell("window.stayed")
    assert browser.tell(f"{switch}.checked")
    assert browser.tell(size) == chosen, "the choice stays"
    browser.until(f"{predicted}.startsWith('Predicted: 9.0')")
    assert browser.errors == []


def test_lines_are_sorted_and_searched(browser: Browser, serve: Serve, here: Profile) -> None:
    store.save(here)
    browser.open(serve("--saved", here.script))
    browser.until("document.querySelector('th.sorts')")
    table = "[...document.querySelectorAll('main table')].find((one) => one.innerText.includes('loss.backward()'))"
    places = f"[...{table}.querySelectorAll('td a')].map((one) => one.innerText)"
    first = browser.tell(places)
    assert len(first) >= 5
    assert browser.tell(f"{table}.tBodies[0].rows[0].innerText.includes('optimizer.step()')"), "the costliest"
    title = f"[...{table}.querySelectorAll('th.sorts')].at(-1)"
    browser.tell(f"{title}.click()")
    browser.tell(f"{title}.click()")
    assert browser.tell(f"{title}.getAttribute('aria-sort')") == "ascending"
    assert sorted(browser.tell(places)) == sorted(first)
    last = f"{table}.tBodies[0].rows[{table}.tBodies[0].rows.length - 1].innerText"
    assert browser.tell(f"{last}.startsWith('iteration')"), "the sum stays at the end"
    search = f"{table}.closest('.scroll').previousElementSibling"
    browser.tell(f"{search}.value = 'backward'")
    browser.tell(f"{search}.dispatchEvent(new Event('input'))")
    shown = browser.tell(
        f"[...{table}.querySelectorAll('td a')].filter((one) => !one.closest('tr').hidden).length"
    )
    assert 0 < shown < len(first)
    assert browser.errors == []


def test_the_timeline_goes_to_perfetto_when_that_answers(
    browser: Browser, serve: Serve, here: Profile
) -> None:
    store.save(here)
    browser.open(serve("--saved", here.script))
    browser.until("document.querySelector('button[name=timeline]')")
    browser.tell(
        "window.sent = []; window.open = (address) => "
        "({ postMessage: (message, origin) => sent.push({ address, message, origin }) }); null"
    )
    browser.tell("document.querySelector('button[name=timeline]').click()")
    browser.until("sent.length > 1")
    assert browser.tell("sent[0]") == {
        "address": "https://ui.perfetto.dev",
        "message": "PING",
        "origin": "https://ui.perfetto.dev",
    }
    answer = "window.dispatchEvent(new MessageEvent('message', {{ origin: '{}', data: 'PONG' }}))"
    browser.tell(answer.format("https://elsewhere.example"))
    browser.tell("new Promise((done) => setTimeout(done, 300))")
    assert browser.tell("sent.every(({ message }) => message === 'PING')"), "another page gets nothing"
    browser.tell(answer.format("https://ui.perfetto.dev"))
    browser.until("document.getElementById('told').innerText.includes('in the tab of ui.perfetto.dev')")
    handed = "sent.filter(({ message }) => message !== 'PING')"
    assert browser.tell(f"{handed}.map((one) => one.origin)") == ["https://ui.perfetto.dev"]
    began = browser.tell(f"[...new Uint8Array({handed}[0].message.perfetto.buffer).slice(0, 2)]")
    assert began == [0x1F, 0x8B], "gzipped"
    assert browser.errors == []


def test_numbers_are_within_the_width_of_a_phone(browser: Browser, serve: Serve, here: Profile) -> None:
    store.save(here)
    browser.open(serve("--saved", here.script))
    browser.until("document.querySelector('.figures')")
    cells = (
        "[...document.querySelectorAll('main table.titled td')].filter((one) => one.getClientRects().length)"
    )
    outside = f"{cells}.filter((one) => one.getBoundingClientRect().right > innerWidth).length"
    browser.resize(360, 780)
    assert browser.tell("innerWidth") == 360
    assert browser.tell(f"{cells}.length") > 20
    assert browser.tell(outside) == 0
    parts = f"[...{PANEL}.querySelectorAll('.bar, .whatif, .batch, button, .curve')]"
    assert browser.tell(f"{parts}.length") > 8
    assert (
        browser.tell(f"{parts}.filter((one) => one.getBoundingClientRect().right > innerWidth).length") == 0
    )
    assert browser.tell("document.documentElement.scrollWidth") <= 360
    named = "getComputedStyle(document.querySelector('td[data-title=share]'), '::before').content"
    assert "share" in browser.tell(named)
    browser.resize(1200, 800)
    browser.until(f"{named} === 'none'")


def test_a_change_is_written_from_the_page(browser: Browser, serve: Serve, here: Profile) -> None:
    script, before = Path(here.script), here.sources[0].text
    store.save(here)
    browser.open(serve("--saved", here.script))
    browser.until("document.querySelector('.figures')")
    browser.drag("memory", 1.0)
    size = browser.tell(f"{PANEL}.querySelector('input[type=number]').value")
    assert size != "16"
    browser.until(f"{PANEL}.querySelector('.diff').innerText.includes('batch_size={size}')")
    assert script.read_text() == before, "nothing is written yet"
    browser.picture("serve.png")
    press = f"{PANEL}.querySelector('[data-key=\"{{}}\"]').click()"
    told = f"{PANEL}.querySelector('.told').innerText"
    browser.tell(press.format("Write into the code"))
    browser.until(f"{told}.includes('Written into train.py')")
    assert script.read_text() == before.replace("batch_size=16", f"batch_size={size}")
    browser.tell(press.format("Take back"))
    browser.until(f"{told}.includes('Taken back')")
    assert script.read_text() == before
    browser.tell(press.format("Reset"))
    assert browser.text(".predicted", PANEL) == ""
    assert browser.errors == []


@pytest.mark.capture
def test_the_script_is_measured_when_it_is_saved(serve: Serve, browser: Browser, here: Profile) -> None:
    script = Path(here.script)
    text = script.read_text()
    script.write_text(text.replace("loss.backward()", "loss.backwards()"))
    browser.open(serve("--steps", "4", "--budget", "0", "--device", "cpu", here.script))
    browser.until("document.getElementById('status').innerText.includes('backwards')")
    script.write_text(text)
    browser.until("document.querySelector('.figures')")
    assert browser.text("#status") == ""
    assert browser.errors == []
