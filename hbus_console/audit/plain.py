"""Evidence in the form in which every database gives it back, so that its hash can be computed again."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from django.core.serializers.json import DjangoJSONEncoder

from hbus_console.audit.redact import redact


def plain(values: Mapping[str, Any] | None) -> Any:
    """``values`` redacted, as JSON types that survive SQLite's JSON text and PostgreSQL's jsonb alike."""
    if values is None:
        return None
    return _settled(json.loads(json.dumps(redact(dict(values)), cls=DjangoJSONEncoder)))


def as_stored(text: str) -> str:
    """``text`` without what PostgreSQL or UTF-8 cannot hold: NUL becomes its picture, a lone surrogate a ``?``."""
    return text.replace("\x00", "\u2400").encode("utf-8", "replace").decode()


def _settled(value: Any) -> Any:
    if isinstance(value, str):
        return as_stored(value)
    if isinstance(value, dict):
        return {as_stored(name): _settled(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_settled(inner) for inner in value]
    if isinstance(value, float):
        if not math.isfinite(value):
            return str(value)
        if value.is_integer():
            # jsonb keeps 1e+20 as 100000000000000000000 and -0.0 as 0: the number it means, written as an integer.
            return int(Decimal(repr(value)))
    return value
