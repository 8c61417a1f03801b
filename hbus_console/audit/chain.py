"""The hash chain: each entry's HMAC covers its content and the hash of the entry before."""

from __future__ import annotations

import hmac
import json
from collections.abc import Mapping
from typing import Any

#: The hash "before" the first entry.
GENESIS = "0" * 64


def canonical(content: Mapping[str, Any]) -> bytes:
    """One byte form for equal content: JSON with sorted keys and no blanks."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def link(key: str, previous_hash: str, content: Mapping[str, Any]) -> str:
    """The hash of an entry. Without ``key`` nobody can recompute a chain they have altered."""
    return hmac.digest(key.encode(), previous_hash.encode() + b"\n" + canonical(content), "sha256").hex()


def key_for(key: str, purpose: str) -> str:
    """A key of its own for ``purpose``: what is signed for one is worth nothing for another."""
    return hmac.digest(key.encode(), f"hbus {purpose}".encode(), "sha256").hex()
