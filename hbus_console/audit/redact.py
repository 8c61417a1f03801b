"""Keeps secrets out of evidence: by the name of the field, and by what a text looks like."""

from __future__ import annotations

import hmac
from typing import Any

from django.conf import settings

from engine.core.redaction import REDACTED, redact_text, shown_url
from engine.core.secret_names import hints, tells


def is_secret(name: str, value: Any) -> bool:
    """Whether ``value``, in a field of this name, is a secret. What tells that there is one is none."""
    if value is None or value == "" or isinstance(value, bool):
        return False
    return tells(name) or (hints(name) and not isinstance(value, dict | list | tuple))


def is_address(name: str) -> bool:
    """Whether a field of this name holds an address that somebody is called at, whose parts may be keys."""
    lowered = name.lower()
    return lowered == "url" or lowered.endswith("_url")


def redact(value: Any) -> Any:
    """A copy of ``value`` with the content of every secret field and every recognisable secret in a text replaced.

    Of an address its host and what can be no key is kept, and a mark that differs where the address does. JSON types
    in, JSON types out; other objects are left as they are.
    """
    if isinstance(value, dict):
        return {str(name): _redact_field(str(name), inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [redact(inner) for inner in value]
    if isinstance(value, str):
        return redact_text(value)
    return value


def _redact_field(name: str, value: Any) -> Any:
    if is_secret(name, value):
        return REDACTED
    if is_address(name) and isinstance(value, str):
        return _redact_address(value)
    return redact(value)


def _redact_address(url: str) -> str:
    shown = shown_url(url)
    if shown == url:
        return url
    # Keyed, so that nobody finds a short key by trying all of them.
    mark = hmac.digest(settings.AUDIT_KEY.encode(), url.encode("utf-8", "replace"), "sha256").hex()[:8]
    return f"{shown} (address {mark})"
