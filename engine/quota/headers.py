"""What an answer says of limits in its headers.

``RateLimit`` and ``RateLimit-Policy`` as draft-ietf-httpapi-ratelimit-headers has them, in either of its forms: that of
draft 10 (``r`` is left, ``t`` seconds until there is more) or the one that its review asks for (``a`` is available,
``w`` is the window it is for). Both are lists of RFC 9651 with a string for each policy. ``Retry-After`` is RFC 9110's.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from enum import StrEnum
from functools import lru_cache

from engine.quota.limiter import LimiterStatus

#: The largest whole number of RFC 9651.
_MOST = 10**15 - 1


class HeaderForm(StrEnum):
    """Which of the two forms is written; ``off``: neither, and ``Retry-After`` alone."""

    DRAFT_10 = "draft-10"
    REVIEWED = "reviewed"
    OFF = "off"


def rate_limit_headers(
    status: LimiterStatus, rule: str, again_s: float, form: HeaderForm = HeaderForm.DRAFT_10
) -> Mapping[str, str]:
    """Of one who was admitted or refused under ``rule``; ``again_s`` is above 0 for who was refused.

    What is left is what this node may hand out at once: it never promises what others may have taken meanwhile. A limit
    that nothing narrows says nothing.
    """
    return dict(_lines(status, rule, again_s, form))


def retry_after(again_s: float) -> str:
    """Whole seconds, no fewer than one: who comes sooner comes in vain."""
    return str(min(_MOST, max(1, math.ceil(again_s))))


def _lines(status: LimiterStatus, rule: str, again_s: float, form: HeaderForm) -> Iterator[tuple[str, str]]:
    if again_s > 0:
        yield "Retry-After", retry_after(again_s)
    if form is HeaderForm.OFF or not rule or not math.isfinite(status.limit):
        return
    name, policy, more_in = _policy(rule, status.limit, status.burst)
    left = _whole(status.tokens)
    if again_s > 0:
        more_in = max(1, math.ceil(again_s))
    yield "RateLimit-Policy", policy
    if form is HeaderForm.DRAFT_10:
        yield "RateLimit", f"{name};r={left};t={more_in}"
    else:
        yield "RateLimit", f"{name};a={left};w={more_in}"


@lru_cache(maxsize=1_000)
def _policy(rule: str, limit: float, burst: float) -> tuple[str, str, int]:
    """Its name, its line, and the seconds until there is more of it: the same on every answer under it."""
    name, most = _string(rule), max(burst, limit)
    # Seconds in which its quota comes in anew.
    window = min(_MOST, max(1, math.ceil(most / limit))) if limit > 0 else 1
    more_in = max(1, math.ceil(1 / limit)) if 0 < limit < 1 else 1
    return name, f"{name};q={_whole(most)};w={window}", more_in


def _whole(number: float) -> int:
    return int(min(_MOST, max(0.0, number)))


def _string(text: str) -> str:
    """An RFC 9651 string holds printable ASCII alone."""
    plain = "".join(letter if " " <= letter <= "~" else "?" for letter in text)
    return '"' + plain.replace("\\", "\\\\").replace('"', '\\"') + '"'
