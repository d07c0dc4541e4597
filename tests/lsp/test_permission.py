"""Saving measures where the person agreed to it: git and other programs run nothing, another branch is asked about."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from lsprotocol import types
from pygls.exceptions import JsonRpcMethodNotFound

from skyline.report import protocol
from skyline.source.checkout import Checkout
from skyline_lsp.permission import Consent, wording

pytestmark = [
    pytest.mark.capture,
    pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed"),
]

QUICK = {"steps": 4, "batchPoints": 0}
IDENTITY = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "commit.gpgsign=false")
YES, NO = "Profile on Save", "Not Now"
# Well beyond what saves are left to settle for.
QUIET_S = 0.8


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", *IDENTITY, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def repository(project: Path) -> Path:
    """The project on branch main; on branch feature its batch size is 48."""
    script = project / "train.py"
    text = script.read_text()
    git(project, "init", "-q", "-b", "main")
    (project / ".gitignore").write_text(".skyline/\n")
    git(project, "add", ".")
    git(project, "commit", "-qm", "first")
    git(project, "switch", "-qc", "feature")
    script.write_text(text.replace("batch_size=32", "batch_size=48"))
    git(project, "commit", "-qam", "second")
    git(project, "switch", "-q", "main")
    return project


class Person:
    """Somebody who has had the script profiled, and goes on working on it."""

    def __init__(self, editor, script: Path) -> None:
        self.editor, self.script, self.uri = editor, script, script.as_uri()
        self._number = 0

    @property
    def runs(self) -> int:
        return len(self.editor.progress())

    async def profile(self) -> None:
        await self.editor.run(protocol.COMMAND_PROFILE, self.uri, QUICK)
        await self.editor.next_change(lambda change: change["profileId"] and not change["stale"])
        await self.editor.until(self.editor.idle)

    async def profile_and_cancel(self) -> None:
        """By hand, too, and sooner over."""
        before = self.runs
        await self.editor.run(protocol.COMMAND_PROFILE, self.uri, QUICK)
        await self.ran(before + 1)

    async def ran(self, runs: int) -> None:
        """So many runs have begun by now; the latest is cancelled."""
        await self.editor.until(lambda: self.runs == runs)
        await self.editor.run(protocol.COMMAND_CANCEL, self.uri)
        await self.editor.until(self.editor.idle)

    def changed(self) -> str:
        """Another text, which does something else."""
        self._number += 1
        return f"{self.script.read_text()}number = {self._number}\n"

    def save(self) -> None:
        self.editor.save(self.script, self.changed())

    async def saves_and_it_runs(self) -> None:
        before = self.runs
        self.save()
        await self.ran(before + 1)

    async def asked(self, questions: int) -> types.ShowMessageRequestParams:
        await self.editor.until(lambda: len(self.editor.questions) == questions)
        return self.editor.questions[-1]

    async def nothing_runs(self, runs: int) -> None:
        await asyncio.sleep(QUIET_S)
        assert self.runs == runs
        assert self.editor.runs() == []

    def presses(self, button: str | None) -> None:
        answer, self.editor.answer = self.editor.answer, asyncio.get_running_loop().create_future()
        answer.set_result(button)


async def test_git_runs_nothing_and_the_first_save_on_a_branch_asks(editor, repository: Path) -> None:
    person = Person(editor, repository / "train.py")
    await person.profile()
    git(repository, "switch", "-q", "feature")
    await editor.next_change(lambda change: change["stale"])
    assert any("stale" in lens for lens in await editor.lenses(person.uri))
    await person.nothing_runs(1)
    assert editor.questions == []

    person.save()
    asked = await person.asked(1)
    assert asked.message == (
        "train.py was last profiled on branch main; now on feature. Profile it on save here too?"
    )
    assert [action.title for action in asked.actions or ()] == [YES, NO]
    person.save()
    await person.nothing_runs(1)
    assert len(editor.questions) == 1, "one question at a time"
    person.presses(YES)
    await person.ran(2)
    await person.saves_and_it_runs()

    # Both branches have been agreed to by now.
    git(repository, "restore", "train.py")
    git(repository, "switch", "-q", "main")
    await person.nothing_runs(3)
    await person.saves_and_it_runs()
    assert len(editor.questions) == 1


@pytest.mark.parametrize("button", [NO, None], ids=["not now", "closed"])
async def test_a_no_holds_until_it_is_profiled_by_hand(editor, repository: Path, button: str | None) -> None:
    person = Person(editor, repository / "train.py")
    await person.profile_and_cancel()
    git(repository, "switch", "-q", "feature")
    person.save()
    await person.asked(1)
    person.presses(button)
    await person.nothing_runs(1)
    person.save()
    await person.nothing_runs(1)
    assert len(editor.questions) == 1, "not asked again in this session"
    await person.profile_and_cancel()
    await person.saves_and_it_runs()
    assert len(editor.questions) == 1


async def test_a_client_that_cannot_ask_is_told_what_to_do(editor, repository: Path) -> None:
    person = Person(editor, repository / "train.py")
    await person.profile_and_cancel()
    git(repository, "switch", "-q", "feature")
    editor.answer.set_exception(JsonRpcMethodNotFound())
    person.save()
    await editor.until(lambda: bool(editor.client.messages))
    (told,) = editor.client.messages
    assert told.message == (
        "train.py was last profiled on branch main; now on feature. "
        "Profile it once by hand to have it profiled on save here too."
    )
    await person.nothing_runs(1)


async def test_a_yes_that_comes_too_late_counts_where_it_was_asked_for(editor, repository: Path) -> None:
    person = Person(editor, repository / "train.py")
    await person.profile_and_cancel()
    git(repository, "switch", "-q", "feature")
    person.save()
    await person.asked(1)
    git(repository, "switch", "-qc", "third")
    person.presses(YES)
    await person.nothing_runs(1)
    person.save()
    asked = await person.asked(2)
    assert asked.message.startswith("train.py was last profiled on branch feature; now on third.")
    person.presses(NO)
    await person.nothing_runs(1)


@pytest.mark.parametrize("wanted", [False, True])
async def test_an_automatic_save_runs_only_where_that_is_set(
    start_editor, project: Path, wanted: bool
) -> None:
    reason = types.TextDocumentSaveReason
    editor = await start_editor({"profile": {"onSave": "everySave"}} if wanted else None)
    person = Person(editor, project / "train.py")
    await person.profile_and_cancel()
    runs = 1
    for automatic in (reason.AfterDelay, reason.FocusOut):
        editor.save(person.script, person.changed(), automatic)
        if wanted:
            runs += 1
            await person.ran(runs)
        else:
            await person.nothing_runs(runs)
    # Nothing was edited since: the save by hand is about what was saved automatically.
    editor.save(person.script, person.changed() if wanted else person.script.read_text(), reason.Manual)
    await person.ran(runs + 1)


async def test_other_programs_run_nothing(editor, project: Path) -> None:
    person = Person(editor, project / "train.py")
    await person.profile()
    for path in (person.script, project / "model.py"):
        path.write_text(f"{path.read_text()}changed = True\n")
        event = types.FileEvent(path.as_uri(), types.FileChangeType.Changed)
        editor.client.workspace_did_change_watched_files(types.DidChangeWatchedFilesParams([event]))
    await editor.next_change(lambda change: change["stale"])
    await person.nothing_runs(1)
    await person.saves_and_it_runs()
    assert editor.questions == [], "a folder without git has one consent"


async def test_a_client_without_documents_tells_git_from_the_person(start_editor, repository: Path) -> None:
    editor = await start_editor(options={"followDisk": True})
    person = Person(editor, repository / "train.py")
    await person.profile_and_cancel()
    text = person.script.read_text()

    async def saves_elsewhere() -> None:
        before = person.runs
        person.script.write_text(person.changed())
        await person.ran(before + 1)

    await saves_elsewhere()
    git(repository, "restore", "train.py")
    await editor.until(lambda: bool(editor.client.messages))
    (told,) = editor.client.messages
    assert told.message.startswith("git changed train.py or one of its modules. Profile it again")
    await person.nothing_runs(2)
    # A commit by itself does not make the next save git's doing.
    await saves_elsewhere()
    git(repository, "commit", "-qam", "third")
    await person.nothing_runs(3)
    await saves_elsewhere()
    assert person.script.read_text() != text
    assert len(editor.client.messages) == 1


HERE = "Profile it on save here too?"


@pytest.mark.parametrize(
    ("last", "now", "words"),
    [
        (
            Consent("", branch="main", given_s=1),
            Checkout(commit="1a2b3c4d5e6f" * 3),
            f"train.py was last profiled on branch main; now on commit 1a2b3c4d5. {HERE}",
        ),
        (
            Consent("", given_s=1),
            Checkout("main"),
            f"train.py was last profiled on no git branch; now on main. {HERE}",
        ),
        (
            Consent("", branch="main", given_s=1),
            Checkout(),
            f"train.py was last profiled on branch main; now on no git branch. {HERE}",
        ),
        (
            Consent(""),
            Checkout("main"),
            f"train.py was last profiled by an earlier version of Skyline; now on main. {HERE}",
        ),
        (
            Consent("", branch="main", given_s=1),
            Checkout("main"),
            (
                "You last agreed to profile train.py on save more than 30 days ago. "
                "Profile it on save for 30 more days?"
            ),
        ),
    ],
)
def test_the_question_says_why_it_is_asked(last: Consent, now: Checkout, words: str) -> None:
    assert " ".join(wording("train.py", last, now)) == words


def remember_as_earlier_versions_did(script: Path) -> None:
    known = Path(os.environ["SKYLINE_DATA_DIR"]) / "profiled-in-editors.txt"
    known.parent.mkdir(parents=True, exist_ok=True)
    with known.open("a") as file:
        file.write(f"{script}\n")


async def test_what_an_earlier_version_remembered_is_asked_about_once(start_editor, profiled: Path) -> None:
    remember_as_earlier_versions_did(profiled / "train.py")
    editor = await start_editor({"profile": QUICK})
    person = Person(editor, profiled / "train.py")
    editor.open(person.script)
    await editor.next_change(lambda change: change["profileId"])
    person.save()
    asked = await person.asked(1)
    assert asked.message == (
        "train.py was last profiled by an earlier version of Skyline. Profile it on save here too?"
    )
    await person.nothing_runs(0)
    person.presses(YES)
    await person.ran(1)
    await person.saves_and_it_runs()
    assert len(editor.questions) == 1


async def test_always_asks_nobody(start_editor, repository: Path) -> None:
    editor = await start_editor({"profile": {"onSave": "always", "steps": 4}})
    person = Person(editor, repository / "train.py")
    editor.open(person.script)
    for runs, branch in ((1, "main"), (2, "feature")):
        git(repository, "switch", "-qf", branch)
        person.save()
        await person.ran(runs)
    assert editor.questions == []
