"""What an answer says of limits in its headers.

``RateLimit`` and ``RateLimit-Policy`` as draft-ietf-httpapi-ratelimit-headers has them, in either of its forms: that of
draft 10 (``r`` is left, ``t`` seconds until there is more) or the one that its review asks for (``a`` is available,
``w`` is the window it is for). Both are lists of RFC 9651 with a string for each policy. ``Retry-After`` is RFC 9110's.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from enum import StrEnum

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
    name, quota, window = _string(rule), _whole(max(status.burst, status.limit)), _window(status)
    left, more_in = _whole(status.tokens), max(1, math.ceil(again_s)) if again_s > 0 else _more_in(status)
    yield "RateLimit-Policy", f"{name};q={quota};w={window}"
    if form is HeaderForm.DRAFT_10:
        yield "RateLimit", f"{name};r={left};t={more_in}"
    else:
        yield "RateLimit", f"{name};a={left};w={more_in}"


def _window(status: LimiterStatus) -> int:
    """Seconds in which a policy's quota comes in anew."""
    if status.limit <= 0:
        return 1
    return min(_MOST, max(1, math.ceil(max(status.burst, status.limit) / status.limit)))


def _more_in(status: LimiterStatus) -> int:
    return max(1, math.ceil(1 / status.limit)) if 0 < status.limit < 1 else 1


def _whole(number: float) -> int:
    return int(min(_MOST, max(0.0, number)))


def _string(text: str) -> str:
    """An RFC 9651 string holds printable ASCII alone."""
    plain = "".join(letter if " " <= letter <= "~" else "?" for letter in text)
    return '"' + plain.replace("\\", "\\\\").replace('"', '\\"') + '"'
