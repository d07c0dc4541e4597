"""Takes secrets out of what is kept of a run: values of the environment, keys on the command line."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping

HIDDEN = "[hidden]"
_SECRET_NAME = re.compile(
    r"TOKEN($|_)|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|(^|_)(KEY|PAT|PWD|AUTH|DSN)($|_)",
    re.IGNORECASE,
)
_NO_SECRETS = {"PWD", "OLDPWD"}
# In this field most tokens are words: a pad_token is no secret.
_SECRET_WORDS = (
    r"(?:secret|password|passwd|(?:api|access|private)[-_]?key"
    r"|(?:api|access|auth|bearer|refresh|hf|hub|github|gitlab|wandb)[-_]?token)"
)
_SECRET_OPTION = re.compile(rf"^--?(?:[\w-]*{_SECRET_WORDS}|token|auth)(=|$)", re.IGNORECASE)
_SECRET_ASSIGNMENT = re.compile(
    rf"((?:--[\w-]*{_SECRET_WORDS}\s+|{_SECRET_WORDS}[\"']?\s*[=:]\s*)[\"']?)([^\s\"',;]{{6,}})",
    re.IGNORECASE,
)
_ADDRESS_LOGIN = re.compile(r"(\w+://)[^/\s@]+@")
_LEAST_LENGTH = 6


class Secrecy:
    """The secrets that were known when a run began."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        # The longest first: one may be a part of another.
        kept = {value for value in values if len(value.strip()) >= _LEAST_LENGTH}
        self._values = sorted(kept, key=len, reverse=True)

    @classmethod
    def of(cls, environment: Mapping[str, str] | None = None, arguments: Iterable[str] = ()) -> Secrecy:
        """Those of an environment (default: ours) whose names say so, and of options such as ``--api-key``."""
        given = os.environ if environment is None else environment
        values = [
            value
            for name, value in given.items()
            if _SECRET_NAME.search(name) and name.upper() not in _NO_SECRETS
        ]
        return cls([*values, *(value for _, value in _secret_arguments(tuple(arguments)))])

    def scrub(self, text: str) -> str:
        """The text without them."""
        return _SECRET_ASSIGNMENT.sub(rf"\1{HIDDEN}", self._without_values(text))

    def scrub_arguments(self, arguments: tuple[str, ...]) -> tuple[str, ...]:
        """A command line without them."""
        scrubbed = list(arguments)
        for index, value in _secret_arguments(arguments):
            scrubbed[index] = arguments[index][: len(arguments[index]) - len(value)] + HIDDEN
        return tuple(self._without_values(text) for text in scrubbed)

    def _without_values(self, text: str) -> str:
        for value in self._values:
            text = text.replace(value, HIDDEN)
        return _ADDRESS_LOGIN.sub(rf"\1{HIDDEN}@", text)


def _secret_arguments(arguments: tuple[str, ...]) -> Iterable[tuple[int, str]]:
    for index, argument in enumerate(arguments):
        match = _SECRET_OPTION.match(argument)
        if match is None:
            continue
        if match.group(1):
            yield index, argument[match.end() :]
        elif index + 1 < len(arguments) and not arguments[index + 1].startswith("-"):
            yield index + 1, arguments[index + 1]
