"""What an answer says of limits in its headers.

``RateLimit`` and ``RateLimit-Policy`` as draft-ietf-httpapi-ratelimit-headers has them, in either of its forms: that of
draft 10 (``r`` is left, ``t`` seconds until there is more) or the one that its review asks for (``a`` is available,
``w`` is the window it is for). Both are lists of RFC 9651 with a string for each policy. ``Retry-After`` is RFC 9110's.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import StrEnum
from functools import lru_cache

from engine.quota.limiter import Glance, Narrowest

Letters = tuple[str, str]
#: The largest whole number of RFC 9651.
_MOST = 10**15 - 1


class HeaderForm(StrEnum):
    """Which of the two forms is written; ``off``: neither, and ``Retry-After`` alone."""

    DRAFT_10 = "draft-10"
    REVIEWED = "reviewed"
    OFF = "off"

    @property
    def letters(self) -> Letters | None:
        """What it calls that which is left, and until when."""
        return None if self is HeaderForm.OFF else ("r", "t") if self is HeaderForm.DRAFT_10 else ("a", "w")


def rate_limit(told: Glance, letters: Letters | None) -> tuple[str, str] | None:
    """``RateLimit-Policy`` and ``RateLimit`` of one who was admitted, in the form of these letters; ``None`` where none
    are written.

    What is left is what this node may hand out at once: it never promises what others may have taken meanwhile. A limit
    that nothing narrows says nothing.
    """
    tokens, under = told
    if letters is None or (fixed := _fixed(under, letters)) is None:
        return None
    policy, before, behind, usual = fixed
    return policy, f"{before}{int(tokens) if 0 <= tokens < _MOST else _whole(tokens)}{behind}{usual}"


def rate_limit_headers(told: Glance, again_s: float, form: HeaderForm = HeaderForm.DRAFT_10) -> Mapping[str, str]:
    """All three, of one who was admitted or, with ``again_s`` above 0, refused."""
    found = {"Retry-After": retry_after(again_s)} if again_s > 0 else {}
    letters = form.letters
    tokens, under = told
    if letters is None or (fixed := _fixed(under, letters)) is None:
        return found
    policy, before, behind, usual = fixed
    found["RateLimit-Policy"] = policy
    found["RateLimit"] = f"{before}{_whole(tokens)}{behind}{retry_after(again_s) if again_s > 0 else usual}"
    return found


def retry_after(again_s: float) -> str:
    """Whole seconds, no fewer than one: who comes sooner comes in vain."""
    return str(min(_MOST, max(1, math.ceil(again_s))))


@lru_cache(maxsize=10_000)
def _fixed(under: Narrowest, letters: Letters) -> tuple[str, str, str, int] | None:
    """What is the same with every request: ``RateLimit-Policy``, what stands before and behind that which is left, and
    seconds until there is more.
    """
    rule, limit, burst = under.rule, under.limit, under.burst
    if not rule or limit == math.inf:
        return None
    name, quota = _string(rule), max(burst, limit)
    window = min(_MOST, max(1, math.ceil(quota / limit))) if limit > 0 else 1
    more_in = max(1, math.ceil(1 / limit)) if 0 < limit < 1 else 1
    left, until = letters
    return f"{name};q={_whole(quota)};w={window}", f"{name};{left}=", f";{until}=", more_in


def _whole(number: float) -> int:
    return int(number) if 0 <= number < _MOST else 0 if number < 0 else _MOST


def _string(text: str) -> str:
    """An RFC 9651 string holds printable ASCII alone."""
    plain = "".join(letter if " " <= letter <= "~" else "?" for letter in text)
    return '"' + plain.replace("\\", "\\\\").replace('"', '\\"') + '"'
