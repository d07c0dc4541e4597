"""Who may ask the page's server for anything, and what it answers."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator

import pytest

from skyline.browser.service import Service
from skyline.browser.subject import Subject
from skyline.trace.profile import Profile


@pytest.fixture
def service(profile: Profile) -> Iterator[Service]:
    subject = Subject()
    subject.show(profile)
    running = Service(subject, "train.py")
    running.start()
    yield running
    running.close()


def ask(service: Service, path: str, body: object = None, **headers: str) -> tuple[int, dict[str, str], str]:
    connection = http.client.HTTPConnection("127.0.0.1", service.server_port, timeout=10)
    sent = None if body is None else json.dumps(body)
    connection.request("GET" if body is None else "POST", path, sent, headers)
    response = connection.getresponse()
    found = response.status, dict(response.getheaders()), response.read().decode()
    connection.close()
    return found


JSON = {"Content-Type": "application/json"}


def test_it_listens_on_the_loopback_address_with_a_token_of_its_own(
    service: Service, profile: Profile
) -> None:
    assert service.server_address[0] == "127.0.0.1"
    other = Service(Subject(), "train.py")
    try:
        assert len(service.token) >= 32
        assert service.token != other.token
    finally:
        other.server_close()


def test_the_page_runs_no_script_but_ours(service: Service) -> None:
    status, headers, page = ask(service, f"/{service.token}/")
    assert status == 200
    assert "script-src 'self';" in headers["Content-Security-Policy"]
    assert headers["Referrer-Policy"] == "no-referrer"
    assert page.count("<script src=") == 1
    assert 'id="ask"' in page
    assert ask(service, f"/{service.token}/live.js")[0] == 200
    assert json.loads(ask(service, f"/{service.token}/profile")[2])["schema"] == "skyline.profile/1"


@pytest.mark.parametrize(
    "path", ["/", "/live.js", "/x/", "/{token}", "/{token}x/", "/{token}/../", "/{token}/other"]
)
def test_nobody_else_is_answered(service: Service, path: str) -> None:
    assert ask(service, path.replace("{token}", service.token))[0] == 404


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1", "localhost:1"])
def test_a_page_under_another_name_is_not_answered(service: Service, host: str) -> None:
    assert ask(service, f"/{service.token}/", Host=host)[0] == 404
    assert ask(service, f"/{service.token}/", Host=f"localhost:{service.server_port}")[0] == 200


def test_questions_are_answered_in_words(service: Service) -> None:
    path = f"/{service.token}/simulate"
    status, _, text = ask(service, path, {"batchSize": 64, "whatifs": []}, **JSON)
    assert status == 200
    assert "per iteration" in json.loads(text)["text"]
    refused = json.loads(ask(service, path, {"whatifs": ["nonsense"]}, **JSON)[2])
    assert not refused["applicable"]
    assert "nonsense" in refused["text"]


def test_what_is_no_question_is_refused(service: Service) -> None:
    path = f"/{service.token}/simulate"
    assert ask(service, path, {"batchSize": "many"}, **JSON)[0] == 400
    assert ask(service, path, [], **JSON)[0] == 400
    assert ask(service, path, {"whatifs": []})[0] == 400, "a form of another page could send that"
    assert ask(service, "/wrong/simulate", {}, **JSON)[0] == 404
    assert ask(service, path, {}, **{**JSON, "Content-Length": "-5"})[0] == 400


def test_news_wait_for_something_new(profile: Profile) -> None:
    subject = Subject()
    first = subject.wait(None, 0)
    assert first is not None
    assert first.number == 0
    assert subject.wait(first, 0) is None
    subject.say("measuring")
    second = subject.wait(first, 0)
    assert second is not None
    assert second.status == "measuring"
    subject.show(profile)
    third = subject.wait(second, 0)
    assert third is not None
    assert (third.number, third.status) == (1, "")
