"""Decoding of a malformed event as far as possible."""

from __future__ import annotations

import json
import re
from typing import Any, cast

import msgspec

from skyline.trace.kineto.event import NAN, Arguments, Event

_STRING = rb'"[^"\\]*(?:\\.[^"\\]*)*"'
# Older profilers print a bandwidth of "inf" and an occupancy of "-nan", which JSON does not allow.
_NOT_A_NUMBER = re.compile(_STRING + rb"|([-+]?\b(?:nan|inf(?:inity)?)\b(?:\([a-z]*\))?)", re.IGNORECASE)
_BAD_ESCAPE = re.compile(rb'\\(?:(["\\/bfnrt]|u[0-9a-fA-F]{4})|)')
_CONTROL = re.compile(rb"[\x00-\x1f]")

UNREADABLE = (msgspec.DecodeError, ValueError, RecursionError)
"""The exceptions of decoding a text."""


def salvaged(text: bytes) -> Event | None:
    """The event in ``text``, with fields of a wrong type left at their defaults; None if it is not an object."""
    try:
        return msgspec.json.decode(text, type=Event, strict=False)
    except UNREADABLE:
        pass
    for attempt in (text, _mended(text)):
        try:
            found = cast("object", json.loads(attempt))
        except UNREADABLE:
            continue
        return _event(cast("dict[str, Any]", found)) if isinstance(found, dict) else None
    return None


def _mended(text: bytes) -> bytes:
    """The text with common errors of JSON writers repaired: bare NaN, lone backslashes, raw control bytes."""
    text = text.decode("utf-8", "replace").encode()
    text = _CONTROL.sub(b" ", text)
    text = _BAD_ESCAPE.sub(lambda found: found.group() if found.group(1) else rb"\\", text)
    return _NOT_A_NUMBER.sub(lambda found: b"null" if found.group(1) else found.group(), text)


def _event(fields: dict[str, Any]) -> Event:
    arguments = fields.get("args")
    return Event(
        ph=_text(fields.get("ph")),
        cat=_text(fields.get("cat")),
        name=_text(fields.get("name")),
        pid=_label(fields.get("pid")),
        tid=_label(fields.get("tid")),
        ts=_number(fields.get("ts")),
        dur=_number(fields.get("dur")),
        args=_arguments(cast("dict[str, Any]", arguments)) if isinstance(arguments, dict) else None,
    )


def _arguments(given: dict[str, Any]) -> Arguments:
    usable: dict[str, Any] = {}
    for described in msgspec.structs.fields(Arguments):
        value = given.get(described.encode_name)
        if value is None:
            continue
        if described.type is msgspec.Raw:
            usable[described.name] = msgspec.Raw(msgspec.json.encode(value))
            continue
        try:
            usable[described.name] = msgspec.convert(value, described.type, strict=False)
        except (msgspec.ValidationError, OverflowError, RecursionError):
            continue
    return Arguments(**usable)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _label(value: object) -> int | str:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, (int, str)) else ""


def _number(value: object) -> float:
    try:
        return float(value) if isinstance(value, (int, float, str)) else NAN
    except (ValueError, OverflowError):
        return NAN
