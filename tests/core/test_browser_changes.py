"""A page shows a change as a diff, writes it into the script, and takes it back."""

from __future__ import annotations

import gzip
import http.client
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from skyline.browser.changes import Changes
from skyline.browser.service import Service, live_page
from skyline.browser.subject import ShownProfile
from skyline.cli.streams import write_whole
from skyline.errors import RewriteRefused
from skyline.report import html
from skyline.trace.profile import Profile
from skyline.whatif.question import Question

RECORDED = Path(__file__).resolve().parents[1] / "data" / "linear.profile.json.gz"


@pytest.fixture
def here(tmp_path: Path) -> Profile:
    """The recorded profile as one of a script in a folder of its own."""
    root = tmp_path.resolve()
    text = gzip.decompress(RECORDED.read_bytes()).decode().replace("/tmp/project", str(root))
    profile = msgspec.json.decode(text, type=Profile)
    (root / "train.py").write_text(profile.sources[0].text)
    return profile


@pytest.fixture
def service(here: Profile) -> Iterator[Service]:
    subject = ShownProfile()
    subject.show(here)
    running = Service(subject, "train.py", changes=Changes(Path(here.script), write_whole))
    running.start()
    yield running
    running.close()


def post(service: Service, name: str, body: object) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=10)
    connection.request(
        "POST", f"/{service.token}/{name}", json.dumps(body), {"Content-Type": "application/json"}
    )
    response = connection.getresponse()
    text = response.read().decode()
    connection.close()
    return response.status, json.loads(text) if response.status == 200 else text


def test_a_change_is_shown_written_and_taken_back(service: Service, here: Profile) -> None:
    script = Path(here.script)
    before = script.read_bytes()
    question = {"batchSize": 64, "whatifs": ["fused_optimizer"]}
    status, shown = post(service, "preview", question)
    assert status == 200
    assert "+loader = DataLoader(data, batch_size=64, shuffle=True)" in shown["diff"]
    assert not shown["written"]
    assert script.read_bytes() == before

    _, written = post(service, "apply", question)
    assert written["written"]
    assert written["text"].startswith("Written into train.py.")
    assert b"batch_size=64" in script.read_bytes()
    assert b"fused=True" in script.read_bytes()
    again = post(service, "apply", question)[1]
    assert not again["written"], "it is measured first"

    assert post(service, "revert", {})[1]["text"] == "Undone in train.py."
    assert script.read_bytes() == before
    assert post(service, "revert", {})[1]["text"] == "There is nothing to undo."


def test_a_change_is_taken_out_together_with_another_one(service: Service, here: Profile) -> None:
    script = Path(here.script)
    assert post(service, "apply", {"whatifs": ["fused_optimizer"]})[1]["written"]
    fused = script.read_bytes()
    question = {"batchSize": 64, "removes": ["fused_optimizer"]}
    shown = post(service, "preview", question)[1]["diff"]
    assert [line for line in shown.splitlines() if "fused=True" in line and line.startswith("-")]
    assert script.read_bytes() == fused
    assert post(service, "apply", question)[1]["written"]
    assert script.read_text() == here.sources[0].text.replace("batch_size=16", "batch_size=64")
    assert "fused_optimizer was not found" in post(service, "apply", question)[1]["text"]
    assert post(service, "revert", {})[1]["text"] == "Undone in train.py."
    assert script.read_bytes() == fused


def test_a_file_that_was_edited_since_is_left_alone(service: Service, here: Profile) -> None:
    script = Path(here.script)
    assert post(service, "apply", {"batchSize": 32})[1]["written"]
    edited = script.read_bytes() + b"# mine\n"
    script.write_bytes(edited)
    assert "train.py was edited since" in post(service, "revert", {})[1]["text"]
    assert script.read_bytes() == edited


def test_a_change_that_cannot_be_made_says_why(service: Service, here: Profile) -> None:
    before = Path(here.script).read_bytes()
    _, refused = post(service, "apply", {"whatifs": ["fuse_jobs=2@own"]})
    assert refused["text"].startswith("Nothing was changed. fuse_jobs")
    assert not refused["written"]
    assert Path(here.script).read_bytes() == before


def test_a_server_that_does_not_write_has_no_buttons(here: Profile) -> None:
    subject = ShownProfile()
    subject.show(here)
    running = Service(subject, "train.py")
    running.start()
    try:
        assert post(running, "apply", {"batchSize": 64})[0] == 404
        assert b"batch_size=16" in Path(here.script).read_bytes()
    finally:
        running.close()
    assert "data-writes" not in live_page(subject.shown, "train.py")
    assert "data-writes" in live_page(subject.shown, "train.py", writes=True)


def test_the_page_opens_with_the_verdict_and_asks_below_it(here: Profile) -> None:
    subject = ShownProfile()
    subject.show(here)
    page = live_page(subject.shown, "train.py")
    order = [
        page.index(mark)
        for mark in ('id="status"', "<h1", 'class="figures"', 'id="panel"', "Costliest lines")
    ]
    assert order == sorted(order)


def test_the_report_below_the_panel_does_not_repeat_its_answers(here: Profile) -> None:
    subject = ShownProfile()
    subject.show(here)
    assert subject.shown is not None
    page = live_page(subject.shown, "train.py")
    assert "<h2>What-ifs" in html.render(subject.shown.report, subject.shown.whatifs)
    assert "<h2>What-ifs" not in page
    assert '"estimates":[{' in page, "the panel reads them from the page's data"


def test_only_the_project_of_the_script_is_written(here: Profile, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "project").mkdir(parents=True)
    (elsewhere / "project" / "pyproject.toml").write_text("")
    subject = ShownProfile()
    subject.show(here)
    assert subject.shown is not None
    changes = Changes(elsewhere / "project" / "other.py", write_whole)
    with pytest.raises(RewriteRefused, match="outside the project"):
        changes.apply(subject.shown.analysis, Question.parse(64, ()))
    assert b"batch_size=16" in Path(here.script).read_bytes()
