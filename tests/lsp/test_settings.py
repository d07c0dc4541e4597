from __future__ import annotations

import pytest

from skyline_lsp.settings import Settings, camel, parse


def test_nothing_gives_the_defaults() -> None:
    assert parse(None).settings == Settings()
    assert parse({}).problems == ()
    assert Settings().profile.on_save == "afterFirst"


def test_camel_case_keys() -> None:
    parsed = parse(
        {
            "interpreter": "/opt/python",
            "profile": {"args": ["--epochs", "1"], "onSave": "never", "steps": 4, "timeoutS": 20},
            "codeLens": {"enable": False},
            "inlayHints": {"minShare": 0.2},
            "hover": {"enable": False},
        }
    )
    assert parsed.problems == ()
    settings = parsed.settings
    assert settings.interpreter == "/opt/python"
    assert settings.profile.args == ("--epochs", "1")
    assert (settings.profile.on_save, settings.profile.steps, settings.profile.timeout_s) == (
        "never",
        4,
        20.0,
    )
    assert not settings.code_lens.enable
    assert settings.inlay_hints.min_share == 0.2
    assert not settings.hover.enable


def test_the_whole_section_may_be_wrapped() -> None:
    assert parse({"skyline": {"profile": {"steps": 3}}}).settings.profile.steps == 3


def test_keys_of_an_extension_are_left_alone() -> None:
    assert parse({"trace": {"server": "verbose"}, "importStrategy": "useBundled"}).problems == ()


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ({"profile": {"steps": "many", "args": ["-x"]}}, "skyline.profile.steps"),
        ({"profile": {"steps": 0, "args": ["-x"]}}, "skyline.profile.steps"),
        ({"profile": {"onSave": "sometimes", "args": ["-x"]}}, "skyline.profile.onSave"),
        ({"profile": {"timeoutS": -1, "args": ["-x"]}}, "skyline.profile.timeoutS"),
        ({"inlayHints": {"minShare": 7}, "profile": {"args": ["-x"]}}, "skyline.inlayHints.minShare"),
        ({"codeLens": [], "profile": {"args": ["-x"]}}, "skyline.codeLens"),
    ],
)
def test_a_bad_value_is_named_and_the_rest_still_counts(value: object, place: str) -> None:
    parsed = parse(value)
    (problem,) = parsed.problems
    assert problem.startswith(place)
    assert "default" in problem
    assert parsed.settings.profile.args == ("-x",)


@pytest.mark.parametrize("value", ["yes", 3, []])
def test_something_that_is_no_object_at_all(value: object) -> None:
    parsed = parse(value)
    assert parsed.settings == Settings()
    assert len(parsed.problems) == 1


def test_camel() -> None:
    assert [camel(name) for name in ("steps", "on_save", "timeout_s")] == ["steps", "onSave", "timeoutS"]
