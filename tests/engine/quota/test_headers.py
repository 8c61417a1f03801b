"""The headers of limits, in both forms of the draft, as a reader of structured fields takes them."""

from __future__ import annotations

import math

import pytest

from engine.quota.headers import HeaderForm, rate_limit, rate_limit_headers, retry_after
from engine.quota.limiter import Glance, Narrowest


def _told(rule: str, tokens: float = 50.0, limit: float = 50.0, burst: float = 100.0) -> Glance:
    return tokens, Narrowest(limit, burst, rule)


def test_who_is_admitted_is_told_the_policy_and_what_is_left() -> None:
    assert rate_limit_headers(_told("partner"), 0.0) == {
        "RateLimit-Policy": '"partner";q=100;w=2',
        "RateLimit": '"partner";r=50;t=1',
    }


def test_the_form_that_the_review_asks_for() -> None:
    told = rate_limit_headers(_told("partner"), 0.0, HeaderForm.REVIEWED)
    assert told["RateLimit"] == '"partner";a=50;w=1'


def test_who_is_refused_is_told_when_to_come_again() -> None:
    told = rate_limit_headers(_told("slow", 0.0, 0.25, 1), 3.2)
    assert (told["Retry-After"], told["RateLimit"]) == ("4", '"slow";r=0;t=4')
    assert told["RateLimit-Policy"] == '"slow";q=1;w=4'


@pytest.mark.parametrize(("again_s", "told"), [(0.001, "1"), (1.0, "1"), (1.01, "2"), (86_400, "86400")])
def test_nobody_is_told_to_come_too_soon(again_s: float, told: str) -> None:
    assert retry_after(again_s) == told


def test_switched_off_only_the_time_to_come_again_is_left() -> None:
    assert rate_limit_headers(_told("partner"), 2.0, HeaderForm.OFF) == {"Retry-After": "2"}


def test_what_is_not_limited_says_nothing() -> None:
    assert rate_limit_headers(_told("", limit=math.inf, burst=math.inf), 0.0) == {}


def test_a_name_is_a_string_of_structured_fields_whatever_is_in_it() -> None:
    told = rate_limit_headers(_told('a"b\\c\r\nX-Evil: é'), 0.0)
    assert told["RateLimit-Policy"].startswith('"a\\"b\\\\c??X-Evil: ?";q=')


def test_a_limit_of_nothing_has_a_window_too() -> None:
    assert rate_limit_headers(_told("stop", 0.0, 0.0, 0.0), 60.0)["RateLimit-Policy"] == '"stop";q=0;w=1'


@pytest.mark.parametrize("form", HeaderForm)
def test_what_is_written_of_the_admitted_is_the_same_as_of_all(form: HeaderForm) -> None:
    told, whole = _told("partner", 7.9, 0.2, 3.0), rate_limit_headers(_told("partner", 7.9, 0.2, 3.0), 0.0, form)
    assert rate_limit(told, form.letters) == (tuple(whole.values()) or None)
