"""From a row to a message: which columns become payload, under which names and types, and which make the envelope."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import msgspec

from engine.bus.options import PublishOptions
from engine.core.clock import to_datetime
from engine.core.error_text import words_of
from engine.core.errors import BadInput
from engine.core.prepared import prepared

#: How long the store knows at least which rows were published, however short the topic's window: an import that was
#: killed between publishing a batch and accounting for it may be run again after a weekend.
KNOWN_S = 3 * 86_400

Cast = Literal["text", "integer", "number", "boolean"]
_TRUE, _FALSE = {"1", "true", "yes", "t", "y"}, {"0", "false", "no", "f", "n"}


class Mapping(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A mapping file. ``key`` and ``time`` name columns of the file; ``const`` adds fixed fields to every payload."""

    topic: str = ""
    type: str = ""
    key: str = ""
    time: str = ""
    #: As for ``strptime``; without it the time is RFC 3339, a calendar day, or epoch seconds or milliseconds.
    time_format: str = ""
    #: The columns to take; empty: all.
    fields: list[str] = []
    #: Column → name in the payload; dots make nested objects.
    rename: dict[str, str] = {}
    const: dict[str, Any] = {}
    #: Column → type; without it, CSV values stay text.
    casts: dict[str, Cast] = {}
    #: Values that mean "nothing here"; they become null.
    nulls: list[str] = []


class RowRefused(Exception):
    """A row that does not fit the mapping."""


def read_mapping(path: Path) -> Mapping:
    """Raises ``BadInput`` naming the member that is wrong."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=prepared(Mapping))
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadInput(
            f"The mapping {path} cannot be used: {words_of(error)}.",
            remedy="It is a JSON object with topic, type, key, time, time_format, fields, rename, const, casts, nulls.",
            field="mapping",
        ) from error


class Mapper:
    """Applies a mapping. Raises :class:`RowRefused` with the column and what is wrong."""

    def __init__(self, mapping: Mapping) -> None:
        self._mapping = mapping
        self._nulls = frozenset(mapping.nulls)

    def payload(self, values: dict[str, Any]) -> dict[str, Any]:
        """The JSON payload of a row."""
        mapping = self._mapping
        made: dict[str, Any] = {}
        for column in mapping.fields or values:
            if column not in values:
                raise RowRefused(f"there is no column {column}")
            value = values[column]
            if isinstance(value, str) and value in self._nulls:
                value = None
            if value is not None and column in mapping.casts:
                value = _cast(column, value, mapping.casts[column])
            _put(made, mapping.rename.get(column, column), value)
        for name, value in mapping.const.items():
            _put(made, name, value)
        return made

    def options(self, values: dict[str, Any], *, identity: str) -> PublishOptions:
        """The envelope's options; ``identity`` becomes message id and idempotency key."""
        mapping = self._mapping
        return PublishOptions(
            type=mapping.type,
            key=self._key(values) if mapping.key else "",
            time=self._time(values) if mapping.time else None,
            message_id=identity,
            idempotency_key=f"import:{identity}",
            idempotency_at_least_s=KNOWN_S,
        )

    def _key(self, values: dict[str, Any]) -> str:
        key = values.get(self._mapping.key)
        if key is None or key == "" or (isinstance(key, str) and key in self._nulls):
            raise RowRefused(f"the key column {self._mapping.key} is empty")
        if not isinstance(key, str | int | float):
            raise RowRefused(f"the key column {self._mapping.key} holds no single value but {_kind(key)}")
        return str(key)

    def _time(self, values: dict[str, Any]) -> datetime:
        column = self._mapping.time
        value = values.get(column)
        if value is None or value == "":
            raise RowRefused(f"the time column {column} is empty")
        try:
            return _instant(value, self._mapping.time_format)
        except (ValueError, OverflowError, OSError) as error:
            raise RowRefused(f"the time column {column} holds {value!r}: {words_of(error)}") from error


def _kind(value: Any) -> str:
    return "an object" if isinstance(value, dict) else "a list"


def _instant(value: Any, form: str) -> datetime:
    if form:
        moment = datetime.strptime(str(value), form)  # noqa: DTZ007 - taken as UTC below when it has no offset
    elif isinstance(value, int | float) or re.fullmatch(r"\d{9,13}(\.\d+)?", str(value)):
        number = float(value)
        # 1e11 seconds is the year 5138: what is larger can only be milliseconds.
        return to_datetime(round(number if number > 1e11 else number * 1000))
    else:
        moment = datetime.fromisoformat(str(value))
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _integer(value: Any) -> int:
    if isinstance(value, float) and not value.is_integer():
        raise ValueError(value)
    return int(value)


def _number(value: Any) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(value)
    return number


def _boolean(value: Any) -> bool:
    text = str(value).strip().lower()
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise ValueError(value)


_CASTS: dict[Cast, Callable[[Any], Any]] = {"text": str, "integer": _integer, "number": _number, "boolean": _boolean}


def _cast(column: str, value: Any, to: Cast) -> Any:
    try:
        return _CASTS[to](value)
    except (ValueError, TypeError) as error:
        raise RowRefused(f"{column} holds {value!r}, which is no {to}") from error


def _put(into: dict[str, Any], name: str, value: Any) -> None:
    *path, last = name.split(".")
    for part in path:
        deeper = into.setdefault(part, {})
        if not isinstance(deeper, dict):
            raise RowRefused(f"{name} cannot be nested: {part} is a value already")
        into = deeper
    into[last] = value
