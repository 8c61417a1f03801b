"""Keeps secrets out of evidence: by the name of the field, and by what a text looks like."""

from __future__ import annotations

from typing import Any

from engine.core.redaction import REDACTED, redact_text

_SECRET_WORDS = ("password", "secret", "token", "digest", "authorization", "cookie", "api_key", "private_key")


def is_secret(name: str) -> bool:
    """Whether a field of this name holds a secret."""
    lowered = name.lower()
    return any(word in lowered for word in _SECRET_WORDS)


def redact(value: Any) -> Any:
    """A copy of ``value`` with the content of every secret field and every recognisable secret in a text replaced.

    JSON types in, JSON types out; other objects are left as they are.
    """
    if isinstance(value, dict):
        return {
            str(name): REDACTED if is_secret(str(name)) and inner not in (None, "") else redact(inner)
            for name, inner in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [redact(inner) for inner in value]
    if isinstance(value, str):
        return redact_text(value)
    return value
