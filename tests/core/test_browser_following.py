"""``skyline serve`` measures what the person saves on the branch that it was started on, and not what git writes."""

from __future__ import annotations

import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from skyline.browser import following
from skyline.browser.following import FileFollower
from skyline.browser.subject import News, ShownProfile
from skyline.errors import SkylineError
from skyline.trace import store
from skyline.trace.profile import Profile, SourceFile

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")

WAIT_S = 60
LOOK_EVERY_S = 0.1
# Several looks of the follower.
QUIET_S = 0.6
# In looks, so that a git which the machine holds up is waited for as long as by the product.
LONGEST_GIT_LOOKS = 100
IDENTITY = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "commit.gpgsign=false")
MAIN, FEATURE = "batch = 1\n", "batch = 22\n"


class Project:
    """A repository with a script on two branches, and a follower of it whose runs are only counted."""

    def __init__(self, root: Path, profile: Profile) -> None:
        self.script = root / "train.py"
        self.subject = ShownProfile()
        self.measured: list[str] = []
        self.fails = False
        self.by_hand: list[bool] = []
        self.while_measured: list[News] = []
        self._profile = profile
        self.git("init", "-q", "-b", "main")
        self.script.write_text(MAIN)
        self.git("add", "train.py")
        self.git("commit", "-qm", "first")
        self.git("switch", "-qc", "feature")
        self.script.write_text(FEATURE)
        self.git("commit", "-qam", "second")
        self.git("switch", "-q", "main")
        self.follower = FileFollower(self.script, self.subject, self.measure)

    def git(self, *arguments: str) -> None:
        command = ["git", *IDENTITY, *arguments]
        subprocess.run(command, cwd=self.script.parent, check=True, capture_output=True)

    def measure(self, stop: threading.Event, early: Callable[[Profile], None], by_hand: bool) -> Profile:
        self.by_hand.append(by_hand)
        early(replace(self._profile, script=str(self.script)))
        self.while_measured.append(self.subject.news)
        text = self.script.read_text()
        self.measured.append(text)
        if self.fails:
            raise SkylineError("The script failed", hint="Mend it.")
        source = SourceFile(str(self.script), "", text)
        number = len(self.measured)
        created = f"2026-11-23T10:00:{number:02d}+00:00"
        profile = replace(
            self._profile, id=f"run-{number}", created=created, script=str(self.script), sources=(source,)
        )
        store.save(profile)
        return profile

    def until(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + WAIT_S
        while not condition():
            assert time.monotonic() < deadline, f"{what}; {self.measured}; {self.subject.news}"
            time.sleep(0.05)

    def until_measured(self, *texts: str) -> None:
        self.until(lambda: self.measured == [*texts], f"not measured: {texts}")
        self.until(lambda: self.subject.news.status == "" or self.fails, "the run did not end")

    def until_told(self, words: str) -> None:
        self.until(lambda: words in self.subject.news.status, f"not told: {words}")


@pytest.fixture(autouse=True)
def frequent_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "_LOOK_EVERY_S", LOOK_EVERY_S)
    monkeypatch.setattr(following, "_LONGEST_GIT_LOOKS", LONGEST_GIT_LOOKS)


@pytest.fixture
def project(tmp_path: Path, profile: Profile) -> Iterator[Project]:
    made = Project(tmp_path.resolve(), profile)
    made.follower.start()
    yield made
    made.follower.close()


def test_a_save_is_measured_and_what_git_writes_is_not(project: Project) -> None:
    project.until_measured(MAIN)
    project.script.write_text("batch = 333\n")
    project.until_measured(MAIN, "batch = 333\n")
    project.git("restore", "train.py")
    project.until_told("git changed train.py")
    time.sleep(QUIET_S)
    assert project.measured == [MAIN, "batch = 333\n"]
    # Saved as it is, it is the person's.
    project.script.write_text(MAIN)
    project.until_measured(MAIN, "batch = 333\n", MAIN)


def test_the_first_figures_say_that_more_follow(project: Project) -> None:
    project.until_measured(MAIN)
    (first,) = project.while_measured
    assert first.measuring
    assert "still being measured" in first.status
    assert not project.subject.news.measuring


def test_a_commit_does_not_stop_the_next_save(project: Project) -> None:
    project.until_measured(MAIN)
    project.script.write_text("batch = 333\n")
    project.until_measured(MAIN, "batch = 333\n")
    project.git("commit", "-qam", "third")
    time.sleep(QUIET_S)
    project.script.write_text("batch = 4444\n")
    project.until_measured(MAIN, "batch = 333\n", "batch = 4444\n")


def test_on_another_branch_nothing_is_measured(project: Project) -> None:
    project.until_measured(MAIN)
    project.git("switch", "-q", "feature")
    project.until_told("git changed train.py")
    project.script.write_text("batch = 333\n")
    project.until_told(
        "skyline serve was started on branch main and measures only there. train.py is now on branch"
    )
    time.sleep(QUIET_S)
    assert project.measured == [MAIN]
    project.git("switch", "-qf", "main")
    project.until(lambda: project.subject.news.status == "", "the note stays though all is as it was")
    project.script.write_text("batch = 4444\n")
    project.until_measured(MAIN, "batch = 4444\n")


def test_a_failed_first_run_is_tried_again_by_the_person_alone(tmp_path: Path, profile: Profile) -> None:
    project = Project(tmp_path.resolve(), profile)
    project.fails = True
    project.follower.start()
    try:
        project.until_told("The script failed")
        time.sleep(QUIET_S)
        assert project.measured == [MAIN], "not again and again"
        project.git("checkout", "-q", "feature", "--", "train.py")
        project.until_told("git changed train.py")
        time.sleep(QUIET_S)
        assert project.measured == [MAIN]
        project.fails = False
        project.script.write_text(FEATURE)
        project.until_measured(MAIN, FEATURE)
    finally:
        project.follower.close()


def test_only_the_run_at_the_start_is_the_users_own(project: Project) -> None:
    """Runs after a save have no access to other machines."""
    project.until_measured(MAIN)
    project.script.write_text("batch = 333\n")
    project.until_measured(MAIN, "batch = 333\n")
    assert project.by_hand == [True, False]


def test_with_a_saved_profile_no_run_is_the_users_own(tmp_path: Path, profile: Profile) -> None:
    made = Project(tmp_path.resolve(), profile)
    source = SourceFile(str(made.script), "", MAIN)
    store.save(replace(profile, script=str(made.script), sources=(source,)))
    made.follower.start()
    try:
        made.until(lambda: made.subject.shown is not None, "not shown")
        time.sleep(QUIET_S)
        made.script.write_text("batch = 333\n")
        made.until_measured("batch = 333\n")
        assert made.by_hand == [False]
    finally:
        made.follower.close()
