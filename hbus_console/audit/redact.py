"""Keeps secrets out of evidence: by the name of the field, and by what a text looks like."""

from __future__ import annotations

import re
from typing import Any

REDACTED = "[redacted]"
_SECRET_WORDS = ("password", "secret", "token", "digest", "authorization", "cookie", "api_key", "private_key")
_IN_TEXT: tuple[tuple[re.Pattern[str], str], ...] = (
    # Our own API tokens: the prefix stays, it is how one recognises them.
    (re.compile(r"\b(hbus_[0-9a-f]{10}_)[A-Za-z0-9_-]{16,}"), rf"\1{REDACTED}"),
    (re.compile(r"\b((?:Bearer|Basic)\s+)[A-Za-z0-9._~+/=-]{8,}", re.IGNORECASE), rf"\1{REDACTED}"),
    # The password in scheme://user:password@host.
    (re.compile(r"(\b[a-z][a-z0-9+.-]*://[^\s/:@]*:)[^\s/@]+(?=@)", re.IGNORECASE), rf"\1{REDACTED}"),
    # Secrets in the query of a webhook's URL.
    (
        re.compile(
            r"([?&][^\s=&#]*(?:password|secret|token|signature|sig|api[_-]?key|access[_-]?key|auth)[^\s=&#]*=)[^\s&#]+",
            re.IGNORECASE,
        ),
        rf"\1{REDACTED}",
    ),
)


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


def redact_text(text: str) -> str:
    """``text`` with what looks like a credential replaced."""
    for pattern, replacement in _IN_TEXT:
        text = pattern.sub(replacement, text)
    return text
