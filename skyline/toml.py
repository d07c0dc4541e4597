"""Tables that users write in TOML: reading, and conversion to a type with the name of the wrong key in errors."""

from __future__ import annotations

import re
import sys
from difflib import get_close_matches
from typing import Any, TypeVar

import msgspec

from skyline.errors import UsageError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_Struct = TypeVar("_Struct", bound=msgspec.Struct)
_FIELD = re.compile(r"Object (?P<what>contains unknown|missing required) field `(?P<key>.*)`")


def parsed_toml(data: bytes | str, where: object) -> dict[str, Any]:
    """The tables of a file. Raises UsageError, with the file, if it is not TOML."""
    try:
        return tomllib.loads(data if isinstance(data, str) else data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where} is not TOML: {error}") from error


def converted(values: dict[str, Any], kind: type[_Struct], where: object, *, hint: str = "") -> _Struct:
    """``values`` as a ``kind``. Raises UsageError, with ``where``, the key and the problem, if they do not fit."""
    try:
        return msgspec.convert(values, kind)
    except msgspec.ValidationError as error:
        wrong, _, place = str(error).partition(" - at `$.")
    at = place.rstrip("`")
    field = _FIELD.fullmatch(wrong)
    if field is None:
        raise UsageError(f"{where}: {at} does not fit: {wrong.replace('`', '')}", hint=hint)
    key = f"{at}.{field['key']}" if at else field["key"]
    if field["what"] == "missing required":
        raise UsageError(f"{where}: {key} is missing", hint=hint)
    near = get_close_matches(field["key"], kind.__struct_fields__, n=1)
    raise UsageError(f"{where}: {key} is not known here", hint=f"Did you mean {near[0]}?" if near else hint)
