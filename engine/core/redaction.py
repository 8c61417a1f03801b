"""Takes what looks like a credential out of a text that is going to be kept or shown."""

from __future__ import annotations

import re

REDACTED = "[redacted]"
#: Each repetition is bounded, so that no text makes the search longer than it is itself.
_LOOKS_SECRET: tuple[tuple[re.Pattern[str], str], ...] = (
    # Our own API tokens: the prefix stays, it is how one recognises them.
    (re.compile(r"\b(hbus_[0-9a-f]{10}_)[A-Za-z0-9_-]{16,}"), rf"\1{REDACTED}"),
    (re.compile(r"\b((?:Bearer|Basic)\s+)[A-Za-z0-9._~+/=-]{8,}", re.IGNORECASE), rf"\1{REDACTED}"),
    # The password in scheme://user:password@host.
    (re.compile(r"(\b[a-z][a-z0-9+.-]{0,30}://[^\s/:@]{0,200}:)[^\s/@]{1,500}(?=@)", re.IGNORECASE), rf"\1{REDACTED}"),
    # Secrets in the query of a webhook's URL.
    (
        re.compile(
            r"([?&][^\s=&#?]{0,60}(?:password|secret|token|signature|sig|api[_-]?key|access[_-]?key|auth)"
            r"[^\s=&#?]{0,60}=)[^\s&#]+",
            re.IGNORECASE,
        ),
        rf"\1{REDACTED}",
    ),
)


def redact_text(text: str) -> str:
    """``text`` with what looks like a credential replaced."""
    for pattern, replacement in _LOOKS_SECRET:
        text = pattern.sub(replacement, text)
    return text
