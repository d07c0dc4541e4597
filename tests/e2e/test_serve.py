"""``skyline serve`` in a real browser: the report, questions to it, and a newer profile that appears by itself."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from skyline.trace import store
from skyline.trace.profile import Profile

pytestmark = pytest.mark.xdist_group("browser")

RECORDED = Path(__file__).resolve().parents[1] / "data" / "linear.profile.json.gz"


@pytest.fixture
def here(tmp_path: Path) -> Profile:
    """The recorded profile as one of a script in a folder of its own."""
    text = gzip.decompress(RECORDED.read_bytes()).decode().replace("/tmp/project", str(tmp_path.resolve()))
    profile = msgspec.json.decode(text, type=Profile)
    Path(profile.script).write_text(profile.sources[0].text)
    return profile


def test_it_shows_answers_and_keeps_current(browser: Any, serve: Any, here: Profile) -> None:
    url = serve("--saved", here.script)
    assert url.startswith("http://127.0.0.1:")
    browser.open(url)
    browser.until("document.body.innerText.includes('Waiting for the first profile of train.py')")

    store.save(here)
    browser.until("document.querySelector('.figures')")
    assert browser.text(".predicted", browser.panel) == ""
    assert "0.49 ms" in browser.text(".figures").replace("\n", " ")
    assert "optimizer.step()" in browser.text("main")
    assert browser.tell("getComputedStyle(document.querySelector('.figures')).display") != "block", "styled"

    browser.drag("throughput", 0.95)
    predicted = f"{browser.panel}.querySelector('.predicted').innerText"
    browser.until(f"{predicted}.startsWith('Predicted: ')")
    alone = browser.tell(predicted)
    switch = f"{browser.panel}.querySelector('[data-key=\"whatif fused_optimizer\"]')"
    browser.tell(f"{switch}.click()")
    browser.until(f"{predicted} !== {json.dumps(alone)}")
    assert "samples/s" in browser.tell(predicted)
    size = f"{browser.panel}.querySelector('input[type=number]').value"
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


def test_lines_are_sorted_and_searched(browser: Any, serve: Any, here: Profile) -> None:
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


def test_the_timeline_goes_to_perfetto_when_that_answers(browser: Any, serve: Any, here: Profile) -> None:
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


def test_numbers_are_within_the_width_of_a_phone(browser: Any, serve: Any, here: Profile) -> None:
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
    parts = f"[...{browser.panel}.querySelectorAll('.bar, .whatif, .batch, button, .curve')]"
    assert browser.tell(f"{parts}.length") > 8
    assert (
        browser.tell(f"{parts}.filter((one) => one.getBoundingClientRect().right > innerWidth).length") == 0
    )
    assert browser.tell("document.documentElement.scrollWidth") <= 360
    named = "getComputedStyle(document.querySelector('td[data-title=share]'), '::before').content"
    assert "share" in browser.tell(named)
    browser.resize(1200, 800)
    browser.until(f"{named} === 'none'")


def test_a_change_is_written_from_the_page(browser: Any, serve: Any, here: Profile) -> None:
    script, before = Path(here.script), here.sources[0].text
    store.save(here)
    browser.open(serve("--saved", here.script))
    browser.until("document.querySelector('.figures')")
    browser.drag("memory", 1.0)
    size = browser.tell(f"{browser.panel}.querySelector('input[type=number]').value")
    assert size != "16"
    browser.until(f"{browser.panel}.querySelector('.diff').innerText.includes('batch_size={size}')")
    assert script.read_text() == before, "nothing is written yet"
    browser.picture("serve.png")
    press = f"{browser.panel}.querySelector('[data-key=\"{{}}\"]').click()"
    told = f"{browser.panel}.querySelector('.told').innerText"
    browser.tell(press.format("Write into the code"))
    browser.until(f"{told}.includes('Written into train.py')")
    assert script.read_text() == before.replace("batch_size=16", f"batch_size={size}")
    browser.tell(press.format("Undo"))
    browser.until(f"{told}.includes('Undone')")
    assert script.read_text() == before
    browser.tell(press.format("Reset"))
    assert browser.text(".predicted", browser.panel) == ""
    assert browser.errors == []


@pytest.mark.capture
def test_the_script_is_measured_when_it_is_saved(serve: Any, browser: Any, here: Profile) -> None:
    script = Path(here.script)
    text = script.read_text()
    script.write_text(text.replace("loss.backward()", "loss.backwards()"))
    browser.open(serve("--steps", "4", "--budget", "0", "--device", "cpu", here.script))
    browser.until("document.getElementById('status').innerText.includes('backwards')")
    script.write_text(text)
    browser.until("document.querySelector('.figures')")
    # The first figures say that more follow.
    browser.until("document.getElementById('status').innerText === ''")
    assert browser.errors == []
