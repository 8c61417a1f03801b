"""Tokens for programs outside: their own, once, and nothing that they say makes more of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from engine.quota.planes.redis import RedisControlPlane
from hbus_console.access.acts import Role
from hbus_console.quotas.services.books import give, newest_book
from hbus_console.wiring import quota, store
from tests.hbus_console.quotas.conftest import MakePolicy
from tests.hbus_console.topics.conftest import Caller

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])


class Time:
    """The control plane's, which a test moves."""

    def __init__(self) -> None:
        self.at = 1_000_000.0

    def __call__(self) -> float:
        return self.at


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch, prefix: str) -> Time:
    made = Time()
    plane = RedisControlPlane(store.client(), prefix, now=made)
    monkeypatch.setattr(quota, "control_plane", lambda: plane)
    return made


def _in_force(time: Time) -> None:
    book = newest_book()
    assert book is not None
    give(quota.control_plane(), book)
    # A memory that is young sells what came in since it is there.
    quota.control_plane().want([])
    time.at += 1_000_000_000


def _want(call: Caller, **more: Any) -> dict[str, Any]:
    one = {"id": "1", "service": "hotel", "resource": "search", "asked": 5, "demand": 5.0} | more
    answer = call("post", "quota/want", {"node": "a", "wants": [one]})
    assert answer.status_code == 200, answer.json()
    (given,) = answer.json()["allocs"]
    assert isinstance(given, dict)
    return given


def test_what_is_granted_is_prepaid_and_a_repeat_is_the_same(
    calling: Callable[..., Caller], make_policy: MakePolicy, time: Time
) -> None:
    make_policy("search", 1, 10, service="hotel")
    _in_force(time)
    call = calling(Role.OPERATOR)
    first = _want(call)
    assert (first["limited"], first["granted"], first["policy"], first["limit"]) == (True, 5, "search", 1.0)
    assert _want(call)["granted"] == 5
    rest = [_want(call, id=str(number))["granted"] for number in range(2, 6)]
    assert 5 + sum(rest) <= 10


def test_where_no_policy_holds_all_is_granted(calling: Callable[..., Caller], time: Time) -> None:
    given = _want(calling(Role.OPERATOR), asked=10**6)
    assert (given["limited"], given["granted"], given["limit"]) == (False, 10**6, None)


def test_what_is_returned_is_believed_once_and_up_to_what_was_granted(
    calling: Callable[..., Caller], make_policy: MakePolicy, time: Time
) -> None:
    make_policy("search", 0.000001, 10, service="hotel")
    _in_force(time)
    call = calling(Role.OPERATOR)
    first = _want(call, asked=10)
    assert first["granted"] == 10
    lied = _want(call, id="2", asked=0, returned=1_000, receipt=first["receipt"])
    again = _want(call, id="3", asked=0, returned=1_000, receipt=first["receipt"])
    assert _want(call, id="2", asked=0, returned=1_000, receipt=first["receipt"])["granted"] == lied["granted"]
    assert again["granted"] == 0
    assert sum(_want(call, id=f"then {number}", asked=10)["granted"] for number in range(5)) <= 10


def test_without_a_receipt_nothing_comes_back(
    calling: Callable[..., Caller], make_policy: MakePolicy, time: Time
) -> None:
    make_policy("search", 0.000001, 10, service="hotel")
    _in_force(time)
    call = calling(Role.OPERATOR)
    assert _want(call, asked=10)["granted"] == 10
    _want(call, id="2", asked=0, returned=10)
    assert _want(call, id="3", asked=10)["granted"] == 0


def test_a_receipt_of_another_caller_or_limiter_counts_for_nothing(
    calling: Callable[..., Caller], make_policy: MakePolicy, time: Time
) -> None:
    make_policy("search", 0.000001, 10, service="hotel")
    _in_force(time)
    one, other = calling(Role.OPERATOR), calling(Role.EDITOR)
    receipt = _want(one, asked=10)["receipt"]
    assert _want(other, asked=10)["granted"] == 10
    _want(other, id="2", asked=0, returned=10, receipt=receipt)
    assert _want(other, id="3", asked=10)["granted"] == 0
    _want(one, id="2", resource="book", asked=0, returned=10, receipt=receipt)
    assert _want(one, id="3", asked=10)["granted"] == 0


def test_a_forged_receipt_is_refused(calling: Callable[..., Caller], make_policy: MakePolicy, time: Time) -> None:
    make_policy("search", 1, 10, service="hotel")
    _in_force(time)
    wants = [{"id": "1", "service": "hotel", "resource": "search", "receipt": "forged"}]
    answer = calling(Role.OPERATOR)("post", "quota/want", {"node": "a", "wants": wants})
    assert (answer.status_code, answer.json()["field"]) == (422, "receipt")


@pytest.mark.parametrize("more", [{"tenant": "somebody"}, {"service": "publish"}])
def test_nobody_spends_for_others(calling: Callable[..., Caller], time: Time, more: dict[str, str]) -> None:
    one = {"id": "1", "service": "hotel", "resource": "search"} | more
    body = {"node": "a", "wants": [one]}
    assert calling(Role.OPERATOR)("post", "quota/want", body).status_code == 403
    assert calling(Role.GOVERNOR)("post", "quota/want", body).status_code == 200


def test_two_of_one_id_are_refused(calling: Callable[..., Caller], time: Time) -> None:
    one = {"id": "1", "service": "hotel", "resource": "search"}
    answer = calling(Role.OPERATOR)("post", "quota/want", {"node": "a", "wants": [one, one]})
    assert answer.status_code == 422
