"""The change in memory: what ``apply`` would write, over the texts as they were profiled."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from skyline.analysis.analyse import Analysis, analyse
from skyline.capture.request import CaptureRequest
from skyline.errors import RewriteRefused, UsageError
from skyline.source.knob import Knob, KnobKind, KnobSearch
from skyline.source.text import SourceSpan
from skyline.trace.profile import Profile, SourceFile
from skyline.verification.change import change, check_unchanged
from skyline.whatif.question import Choice, Question

BATCH_32 = Question(batch_size=32)


@pytest.fixture
def analysis(profile: Profile, tmp_path: Path) -> Analysis:
    """Of the hand-made profile, its script a real file."""
    path = tmp_path / "train.py"
    path.write_text(profile.sources[0].text, encoding="utf-8")
    (knob,) = profile.knobs.candidates
    knob = replace(knob, span=replace(knob.span, file=str(path)))
    return analyse(
        replace(
            profile,
            script=str(path),
            sources=(SourceFile(str(path), "", profile.sources[0].text),),
            knobs=KnobSearch((knob,)),
        )
    )


def test_the_edit_is_made_in_memory_and_the_file_stays(analysis: Analysis) -> None:
    path = Path(analysis.profile.script)
    before = path.read_bytes()

    made = change(analysis, BATCH_32, ())

    ((changed, text),) = made.texts
    assert Path(changed).samefile(path)
    assert "batch_size=32" in text
    assert text.replace("batch_size=32", "batch_size=16") == before.decode()
    assert "+loader = DataLoader(data, batch_size=32)" in made.diff
    assert path.read_bytes() == before


def test_the_change_takes_the_place_of_an_unsaved_text(analysis: Analysis) -> None:
    path = analysis.profile.script
    base = CaptureRequest(Path(path), source_overrides=((path, "unsaved"), ("/elsewhere.py", "kept")))

    request = change(analysis, BATCH_32, ()).over(base)

    texts = dict(request.source_overrides)
    assert set(texts) == {path, "/elsewhere.py"}
    assert "batch_size=32" in texts[path]
    assert texts["/elsewhere.py"] == "kept"


def test_a_batch_size_of_the_command_line_is_changed_there(analysis: Analysis) -> None:
    profile = analysis.profile
    span = SourceSpan(profile.script, 2, 37, 2, 39)
    knob = Knob("batch_size", 16, KnobKind.COMMAND_LINE, span, "16", argument_index=1)
    arguments = ("--batch-size", "16", "--lr", "0.1")
    given = analyse(replace(profile, arguments=arguments, knobs=KnobSearch((knob,))))

    made = change(given, BATCH_32, arguments)

    assert made.arguments == ("--batch-size", "32", "--lr", "0.1")
    assert made.texts == ()


def test_what_cannot_be_written_is_refused_with_another_way(analysis: Analysis) -> None:
    hidden = analyse(replace(analysis.profile, knobs=KnobSearch(())))
    with pytest.raises(RewriteRefused, match="batch_size cannot be verified") as raised:
        change(hidden, BATCH_32, ())
    assert "--against" in raised.value.hint


def test_what_torchrun_starts_is_refused_with_another_way(analysis: Analysis) -> None:
    with pytest.raises(UsageError, match="which torchrun starts") as refused:
        change(analysis, Question(choices=(Choice("data_parallel", "2"),)), ())
    assert "skyline profile torchrun" in refused.value.hint


def test_what_is_so_already_is_nothing_to_verify(analysis: Analysis) -> None:
    with pytest.raises(UsageError, match="already"):
        change(analysis, Question(batch_size=16), ())


def test_a_source_that_was_edited_since_is_refused(analysis: Analysis) -> None:
    path = Path(analysis.profile.script)
    request = CaptureRequest(path)
    check_unchanged(analysis, request)

    text = path.read_text()
    path.write_text(text + "\n# edited\n")
    with pytest.raises(UsageError, match=r"train\.py changed"):
        check_unchanged(analysis, request)
    # The text to run is unsaved, and is the profiled one.
    check_unchanged(analysis, replace(request, source_overrides=((str(path), text),)))
    path.unlink()
    with pytest.raises(UsageError, match=r"train\.py changed"):
        check_unchanged(analysis, request)


def test_runs_that_are_fused_by_hand_have_a_command_that_measures_them(analysis: Analysis) -> None:
    with pytest.raises(RewriteRefused) as refused:
        change(analysis, Question(choices=(Choice("fuse_jobs", "2"),)), ())
    assert "skyline verify SCRIPT --against COPY" in refused.value.hint
