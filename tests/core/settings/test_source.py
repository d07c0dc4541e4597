from __future__ import annotations

import pytest

from skyline.errors import UsageError
from skyline.settings.keys import camel, keys, settings_of
from skyline.settings.model import Settings
from skyline.settings.source import from_editor, from_table, from_words


def test_nothing_gives_the_defaults() -> None:
    for nothing in (None, {}):
        source = from_editor(nothing)
        assert settings_of(source.values) == Settings()
        assert source.problems == ()
    assert Settings().profile.on_save == "afterFirst"


def test_camel_case_keys() -> None:
    source = from_editor(
        {
            "interpreter": "/opt/python",
            "profile": {"args": ["--epochs", "1"], "onSave": "never", "steps": 4, "timeoutS": 20},
            "codeLens": {"enable": False},
            "inlayHints": {"minShare": 0.2},
            "diagnostics": {"select": ["SKY1"], "warnAt": 0.5},
            "hover": {"enable": False},
        }
    )
    assert source.problems == ()
    settings = settings_of(source.values)
    assert settings.interpreter == "/opt/python"
    assert settings.profile.args == ("--epochs", "1")
    assert (settings.profile.on_save, settings.profile.steps, settings.profile.timeout_s) == (
        "never",
        4,
        20.0,
    )
    assert not settings.code_lens.enable
    assert settings.inlay_hints.min_share == 0.2
    assert settings.diagnostics.select == ("SKY1",)
    assert settings.diagnostics.warn_at == 0.5
    assert not settings.hover.enable


def test_the_whole_section_may_be_wrapped() -> None:
    assert from_editor({"skyline": {"profile": {"steps": 3}}}).values == {"profile.steps": 3}


def test_keys_of_an_extension_are_left_alone() -> None:
    assert from_editor({"trace": {"server": "verbose"}, "importStrategy": "useBundled"}).problems == ()


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ({"profile": {"steps": "many", "args": ["-x"]}}, "skyline.profile.steps"),
        ({"profile": {"steps": 0, "args": ["-x"]}}, "skyline.profile.steps"),
        ({"profile": {"onSave": "sometimes", "args": ["-x"]}}, "skyline.profile.onSave"),
        ({"profile": {"timeoutS": -1, "args": ["-x"]}}, "skyline.profile.timeoutS"),
        ({"profile": {"env": {"A": 1}, "args": ["-x"]}}, "skyline.profile.env"),
        ({"inlayHints": {"minShare": 7}, "profile": {"args": ["-x"]}}, "skyline.inlayHints.minShare"),
        ({"codeLens": [], "profile": {"args": ["-x"]}}, "skyline.codeLens"),
    ],
)
def test_a_bad_value_is_named_and_the_rest_still_counts(value: object, place: str) -> None:
    source = from_editor(value)
    (problem,) = source.problems
    assert problem.startswith(place)
    assert "default" in problem
    assert source.values == {"profile.args": ("-x",)}


@pytest.mark.parametrize("value", ["yes", 3, []])
def test_something_that_is_no_object_at_all(value: object) -> None:
    source = from_editor(value)
    assert source.values == {}
    assert len(source.problems) == 1


def test_a_table_is_written_in_snake_case_and_its_typing_errors_are_named() -> None:
    source = from_table(
        {"inlay_hints": {"min_share": 0.5}, "profile": {"stepps": 3}, "gpuu": "a", "codeLens": 1}, "P"
    )
    assert source.values == {"inlayHints.minShare": 0.5}
    assert source.problems == (
        "P: tool.skyline.profile.stepps is not a setting. Did you mean profile.steps?",
        "P: tool.skyline.gpuu is not a setting. Did you mean gpu?",
        "P: tool.skyline.codeLens is not a setting. docs/settings.md lists them.",
    )


def test_words_of_a_command_line() -> None:
    source = from_words(
        ['profile.args=["--lr", "1"]', "gpu=h100", "skyline.profile.on_save=never", "enable=false"]
    )
    assert source.values == {
        "profile.args": ("--lr", "1"),
        "gpu": "h100",
        "profile.onSave": "never",
        "enable": False,
    }


@pytest.mark.parametrize(
    ("word", "said"),
    [("profile.step=3", "profile.step is not a setting"), ("gpu", "no value"), ("profile.steps=0", ">= 1")],
)
def test_words_that_make_no_sense(word: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        from_words([word])


def test_names() -> None:
    assert [camel(name) for name in ("steps", "on_save", "timeout_s")] == ["steps", "onSave", "timeoutS"]
    assert len({key.name for key in keys()}) == len(keys())
    assert all(key.meta.description for key in keys())
