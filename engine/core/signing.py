"""Signed calls to receivers of others: how a call is signed, and what an answer says about trying again."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

SIGNATURE_HEADER = "X-Hbus-Signature"
#: Client errors that may pass by themselves.
PASSING = frozenset({408, 425, 429})


def new_secret() -> str:
    """A secret to sign with, of 256 bits; its first letters tell whoever finds it in a log what it is."""
    return f"whsec_{secrets.token_urlsafe(32)}"


def sign(secret: bytes, at_s: int, body: bytes) -> str:
    """The value of the signature header: ``t=<epoch seconds>,v1=<hex HMAC-SHA256 of "t.body">``."""
    digest = hmac.new(secret, b"%d.%b" % (at_s, body), hashlib.sha256).hexdigest()
    return f"t={at_s},v1={digest}"


def retry_after_s(value: str, now: datetime) -> float | None:
    """Seconds that a Retry-After header (seconds or an HTTP date) asks for; ``None`` when it says nothing usable."""
    value = value.strip()
    if value.isascii() and value.isdigit():
        return float(value[:9])
    try:
        moment = parsedate_to_datetime(value)
    except (TypeError, ValueError, OverflowError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - now).total_seconds())
