"""Secrets are taken out of what is kept of a run: by the names that they go by, and by what they look like."""

from __future__ import annotations

from dataclasses import replace

import pytest

from skyline.capture.redactor import HIDDEN, Redactor, secret_free
from skyline.trace.facts import CallFact, ModuleFact
from skyline.trace.profile import Profile
from skyline.trace.record import CodeLine
from skyline.trace.trial import Choices, FailedTrial

NOTHING_KNOWN = Redactor.of({})
HF = "hf_abcdefghijklmnopqrstuvwx"


@pytest.mark.parametrize(
    "option",
    [
        "--login",
        "--cookie",
        "--session-cookies",
        "--openai",
        "--anthropic",
        "--wandb-key",
        "--key",
        "--passphrase",
        "--api-key",
        "--token",
        "--pass",
        "--openai_key",
        "--hf-token",
    ],
)
@pytest.mark.parametrize("value", ["X", "a b c", "0123456789abcdef"])
def test_options_by_name(option: str, value: str) -> None:
    scrub = NOTHING_KNOWN.scrub_arguments
    assert scrub((option, value, "--lr", "1")) == (option, HIDDEN, "--lr", "1")
    assert scrub((f"{option}={value}",)) == (f"{option}={HIDDEN}",)


@pytest.mark.parametrize(
    "arguments",
    [
        (
            "-p",
            "8080",
            "-p",
            "data/train.csv",
            "-p",
            "-v",
            "-p",
            "0.5",
            "--cookiecutter",
            "a",
            "--loginless",
            "b",
        ),
        ("--weights", "hub/snapshots/0123456789abcdef0123456789abcdef01234567/model.bin"),
        ("--image-key", "jpg", "--sort_key", "length", "--pad-token", "</s>", "--max-tokens", "100"),
        ("--tokenizer", "gpt2", "--keys", "a", "--author", "me", "--config", "a/b.yaml"),
        ("--commit", "0123456789abcdef0123456789abcdef01234567", "task-something-long-and-harmless"),
    ],
)
def test_options_that_are_none(arguments: tuple[str, ...]) -> None:
    assert NOTHING_KNOWN.scrub_arguments(arguments) == arguments


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("curl -H 'Authorization: Bearer abc.def-123'", f"curl -H 'Authorization: Bearer {HIDDEN}'"),
        ("Authorization: Basic dXNlcjpwdw==", f"Authorization: Basic {HIDDEN}"),
        ("Authorization: abcdefghij", f"Authorization: {HIDDEN}"),
        ('{"Authorization": "abcdefghij"}', f'{{"Authorization": "{HIDDEN}"}}'),
        ("X-Api-Key: abcdefghij", f"X-Api-Key: {HIDDEN}"),
        ("Cookie: session=abc; user=me", f"Cookie: {HIDDEN}"),
        (f"wandb: key {'0123456789' * 4} is kept", f"wandb: key {HIDDEN} is kept"),
        ("got bearer abcdefgh", f"got bearer {HIDDEN}"),
        (f"logged in as {HF}.", f"logged in as {HIDDEN}."),
        ("key AKIAABCDEFGHIJKLMNOP", f"key {HIDDEN}"),
        ("password='two words'", f"password='{HIDDEN}'"),
        ('{"api_key": "abc"}', f'{{"api_key": "{HIDDEN}"}}'),
        ("secret=x", f"secret={HIDDEN}"),
        ("https://host/p?sig=abc&x=1", f"https://host/p?sig={HIDDEN}&x=1"),
        ("a -----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY----- b", f"a {HIDDEN} b"),
        ("a -----BEGIN PRIVATE KEY-----\nabc\ndef", f"a {HIDDEN}"),
        ("eyJhbGciOiJI.eyJzdWIiOiIx.abc_def", HIDDEN),
    ],
)
def test_shapes_in_a_text(text: str, kept: str) -> None:
    assert NOTHING_KNOWN.scrub(text) == kept


@pytest.mark.parametrize(
    "text",
    [
        "epoch 1: loss 0.25, 300 tokens per second",
        "commit 0123456789abcdef0123456789abcdef01234567",
        "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>(int)",
        "transformer.h.0.attn.c_attn",
        "risk-adjusted-return-of-something",
    ],
)
def test_texts_that_hold_none(text: str) -> None:
    assert NOTHING_KNOWN.scrub(text) == text


def test_a_password_after_a_short_option() -> None:
    assert NOTHING_KNOWN.scrub_arguments(("-p", "hunter2", "x")) == ("-p", HIDDEN, "x")


def test_values_of_several_lines_and_short_ones() -> None:
    redactor = Redactor.of(
        {"SIGNING_KEY": "first line\nsecond line\n", "PASSPHRASE": "ab12", "A_KEY": "1234"}
    )
    assert redactor.scrub("> second line <") == f"> {HIDDEN} <"
    assert redactor.scrub("first line\nsecond line") == HIDDEN
    assert redactor.scrub(r"'first line\nsecond line'") == f"'{HIDDEN}'"
    assert redactor.scrub("ab12 cab123 1234") == f"{HIDDEN} cab123 1234"


def test_names_that_are_recorded(profile: Profile) -> None:
    """Modules and ranges are named by the script: a name may hold anything."""
    trace = replace(
        profile.trace,
        modules=tuple(f"Net.{HF}" for _ in profile.trace.modules),
        records=tuple(replace(one, name=f"step {HF}") for one in profile.trace.records),
        functions=(HF,),
    )
    named = replace(
        profile,
        trace=trace,
        modules=(ModuleFact(f"Net.{HF}", "Net", False, 1, True, {"name": HF, "p": 0.5}),),
        calls=(CallFact("item", 1.0, None, {"device": HF}),),
        notes=(HF,),
        arguments=("--token-file", HF),
        output_tail=f"Bearer {HF}",
        failed_trials=(FailedTrial(Choices(threads=1), f"KeyError: {HF}", CodeLine("train.py", 1)),),
    )
    kept = secret_free(named, NOTHING_KNOWN)
    assert HF in repr(named)
    assert HF not in repr(kept)
    assert kept.modules[0].path == kept.trace.modules[0] == f"Net.{HIDDEN}"
    assert kept.modules[0].options["p"] == 0.5
    assert secret_free(profile, NOTHING_KNOWN) == profile
