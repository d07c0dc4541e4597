"""Removes secrets from the stored data of a run: values of the environment, keys on the command line.

The rules are our own. ``detect-secrets`` (1.5.0 of 2024, Apache 2.0) was tested as an alternative: its patterns miss
keys of Hugging Face, W&B and Anthropic and options of a command line, its entropy rule takes ``layer1`` and ``loss``
for secrets, and it depends on PyYAML and requests.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from typing import TypeVar

from skyline.trace.profile import Profile

HIDDEN = "[hidden]"
_SECRET_NAME = re.compile(
    r"TOKEN($|_)|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|(^|_)(KEY|PAT|PWD|AUTH|DSN)($|_)",
    re.IGNORECASE,
)
_NO_SECRETS = {"PWD", "OLDPWD"}
# In this field most tokens are words, and many keys are column names: a pad_token or an image_key is no secret.
_SECRET_WORDS = (
    r"(?:secret|password|passwd|passphrase|credentials?"
    r"|(?:api|access|private|secret|auth|account|encryption|license|signing"
    r"|wandb|comet|neptune|openai|anthropic|azure|aws|gcp|hf|hub)[-_]?key"
    r"|(?:api|access|auth|bearer|refresh|session|id|hf|hub|github|gitlab|wandb|slack|bot)[-_]?token)"
)
_SECRET_OPTION = re.compile(
    rf"^--?(?:[\w-]*{_SECRET_WORDS}|token|auth|authorization|key|pass|pwd|pat|dsn|login|(?:[\w-]*[_-])?cookies?"
    r"|openai|anthropic)(=|$)",
    re.IGNORECASE,
)
_SHORT_PASSWORD = "-p"
"""The password option of database clients; a number or a path after it is a port or a file instead."""
_VALUE = r"""(?:"[^"\n]*"|'[^'\n]*'|[^\s"',;&]+)"""
_SECRET_ASSIGNMENT = re.compile(
    rf"((?:--[\w-]*{_SECRET_WORDS}\s+|{_SECRET_WORDS}[\"']?\s*[=:]\s*))({_VALUE})",
    re.IGNORECASE,
)
_ADDRESS_LOGIN = re.compile(r"(\w+://)[^/\s@]+@")
_ADDRESS_KEY = re.compile(
    r"([?&](?:[\w-]*(?:token|key|signature|password|secret)|sig|auth|code)=)[^&\s\"'#]+", re.I
)
_SHAPES = re.compile(
    r"""
    -----BEGIN\ [A-Z ]*PRIVATE\ KEY-----.*?(?:-----END\ [A-Z ]*PRIVATE\ KEY-----|\Z)
    | (?<![A-Za-z0-9_-])(?:
        hf_[A-Za-z0-9]{16,}                                 # Hugging Face
      | gh[pousr]_[A-Za-z0-9]{16,} | github_pat_\w{20,}     # GitHub
      | glpat-[\w-]{16,}                                    # GitLab
      | sk-[A-Za-z0-9_-]{16,}                               # OpenAI, Anthropic
      | (?:AKIA|ASIA)[0-9A-Z]{16}                           # AWS
      | AIza[\w-]{30,} | ya29\.[\w-]{16,}                  # Google
      | xox[abeprs]-[A-Za-z0-9-]{10,}                       # Slack
      | (?:sk|rk)_(?:live|test)_[A-Za-z0-9]{10,}            # Stripe
      | (?:pypi-AgE|npm_|nvapi-|r8_|wandb_v1_)[\w-]{16,}    # PyPI, npm, NVIDIA, Replicate, W&B
      | eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]+                # JSON Web Tokens
    )
    """,
    re.VERBOSE | re.DOTALL,
)
"""Tokens that are recognized by their prefix."""
_COMMIT_WORDS = r"(?:commit|revision|rev|sha1?|hash|head|tree)"
_COMMIT = re.compile(rf"(?:^|[_-]){_COMMIT_WORDS}$", re.IGNORECASE)
_HEX_KEY = re.compile(rf"(\b{_COMMIT_WORDS}\b[\"'=:\s]*)?(?<![\w/@-])[0-9a-f]{{40}}(?![\w-])", re.IGNORECASE)
"""A key of W&B, unless a word before it or a path around it shows that it is the hash of a commit."""
_AUTHORIZATION = re.compile(
    r"(\bBearer\s+|\b(?:Authorization|X-Api-Key)[\"']?\s*[=:]\s*[\"']?(?:(?:Bearer|Basic|Token|Digest|ApiKey)\s+)?)"
    r"(?!\[hidden\])[\w.~+/=:-]{4,}",
    re.IGNORECASE,
)
_COOKIE = re.compile(
    r"(\b(?:Set-)?Cookie[\"']?\s*[=:]\s*[\"']?)[^\s\"';,]+(?:;\s*[^\s\"';,]+=[^\s\"';,]+)*", re.IGNORECASE
)
_LEAST_LENGTH = 6
_LEAST_WORD = 4
"""Known values from this length up to ``_LEAST_LENGTH`` are hidden only as separate words: they may occur in words."""


class Redactor:
    """Hides the secrets that were known when a run began."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        known = {part.strip() for value in values for part in (value, *value.splitlines())}
        # Longest first, since one may be part of another. Multi-line values may be printed with `\\n` in them.
        ordered = sorted(known | {value.replace("\n", r"\n") for value in known}, key=len, reverse=True)
        long = [re.escape(value) for value in ordered if len(value) >= _LEAST_LENGTH]
        short = [
            rf"(?<!\w){re.escape(value)}(?!\w)"
            for value in ordered
            if _LEAST_WORD <= len(value) < _LEAST_LENGTH and not value.isdecimal()
        ]
        self._values = re.compile("|".join((*long, *short))) if long or short else None

    @classmethod
    def of(cls, environment: Mapping[str, str] | None = None, arguments: Iterable[str] = ()) -> Redactor:
        """The secrets in an environment (default: ours), recognized by name, and in options such as ``--api-key``."""
        given = os.environ if environment is None else environment
        values = [
            value
            for name, value in given.items()
            if _SECRET_NAME.search(name) and name.upper() not in _NO_SECRETS
        ]
        return cls([*values, *(value for _, value in _secret_arguments(tuple(arguments)))])

    def scrub(self, text: str) -> str:
        """The text without known secrets, and without text that looks like a secret by its name or shape."""
        text = _HEX_KEY.sub(lambda found: found[0] if found[1] else HIDDEN, self._without_values(text))
        return _SECRET_ASSIGNMENT.sub(_hidden_value, text)

    def scrub_arguments(self, arguments: tuple[str, ...]) -> tuple[str, ...]:
        """A command line without secrets."""
        scrubbed = list(arguments)
        for index, value in _secret_arguments(arguments):
            scrubbed[index] = arguments[index][: len(arguments[index]) - len(value)] + HIDDEN
        return tuple(
            text if _is_commit(before, text) else self.scrub(text)
            for before, text in zip(("", *arguments), scrubbed, strict=False)
        )

    def _without_values(self, text: str) -> str:
        if self._values is not None:
            text = self._values.sub(HIDDEN, text)
        text = _SHAPES.sub(HIDDEN, text)
        text = _AUTHORIZATION.sub(rf"\1{HIDDEN}", text)
        text = _COOKIE.sub(rf"\1{HIDDEN}", text)
        text = _ADDRESS_KEY.sub(rf"\1{HIDDEN}", text)
        return _ADDRESS_LOGIN.sub(rf"\1{HIDDEN}@", text)


def _hidden_value(found: re.Match[str]) -> str:
    name, value = found[1], found[2]
    if HIDDEN in value:
        return found[0]
    quote = value[0] if value[0] in "\"'" else ""
    return f"{name}{quote}{HIDDEN}{quote}"


def hides_something(arguments: Iterable[str]) -> bool:
    """True if a command line cannot be run again because a secret in it was hidden."""
    return any(HIDDEN in argument for argument in arguments)


def _secret_arguments(arguments: tuple[str, ...]) -> Iterable[tuple[int, str]]:
    for index, argument in enumerate(arguments):
        following = arguments[index + 1] if index + 1 < len(arguments) else ""
        if argument == _SHORT_PASSWORD and _may_be_password(following):
            yield index + 1, following
        match = _SECRET_OPTION.match(argument)
        if match is None:
            continue
        if match.group(1):
            yield index, argument[match.end() :]
        elif following and not following.startswith("-"):
            yield index + 1, following


def _is_commit(option: str, value: str) -> bool:
    return _COMMIT.search(option) is not None and _HEX_KEY.fullmatch(value) is not None


def _may_be_password(value: str) -> bool:
    if not value or value.startswith("-") or "/" in value or os.path.exists(value):
        return False
    return re.fullmatch(r"[\d.,:e+-]+", value) is None


_Value = TypeVar("_Value")


def secret_free(profile: Profile, redactor: Redactor) -> Profile:
    """The profile without secrets. Source texts are kept unchanged: they are the user's own."""
    scrub = cache(redactor.scrub)

    def options(given: dict[str, _Value]) -> dict[str, _Value | str]:
        return {name: scrub(value) if isinstance(value, str) else value for name, value in given.items()}

    trace, values = profile.trace, profile.values
    clean = {name: scrub(name) for name in {record.name for record in trace.records}}
    return replace(
        profile,
        arguments=redactor.scrub_arguments(profile.arguments),
        output_tail=scrub(profile.output_tail),
        notes=tuple(map(scrub, profile.notes)),
        warmup_reason=scrub(profile.warmup_reason),
        modules=tuple(
            replace(one, path=scrub(one.path), options=options(one.options)) for one in profile.modules
        ),
        trials=tuple(
            replace(
                trial,
                operators=tuple(
                    replace(one, name=scrub(one.name), module=scrub(one.module)) for one in trial.operators
                ),
            )
            for trial in profile.trials
        ),
        failed_trials=tuple(replace(one, message=scrub(one.message)) for one in profile.failed_trials),
        calls=tuple(replace(one, options=options(one.options)) for one in profile.calls),
        values=values
        and replace(
            values,
            tables=tuple(replace(one, path=scrub(one.path)) for one in values.tables),
            zeros=tuple(replace(one, path=scrub(one.path)) for one in values.zeros),
            widths=tuple(replace(one, path=scrub(one.path)) for one in values.widths),
        ),
        trace=replace(
            trace,
            modules=tuple(map(scrub, trace.modules)),
            records=tuple(
                record if clean[record.name] == record.name else replace(record, name=clean[record.name])
                for record in trace.records
            ),
            functions=tuple(map(scrub, trace.functions)),
        ),
    )
