from __future__ import annotations

import pytest

from engine.core.clock import ManualClock
from hbus_console.accounts.models import LoginFailures
from hbus_console.accounts.throttle import FREE, FREE_PER_ADDRESS, LoginThrottle, wait_s

pytestmark = pytest.mark.django_db


def tries(throttle: LoginThrottle, count: int, account: str = "anna", address: str = "10.0.0.1") -> list[float]:
    return [throttle.begin(account, address) for _ in range(count)]


def test_the_first_failures_are_free_and_then_the_wait_grows() -> None:
    clock = ManualClock()
    throttle = LoginThrottle(clock)
    assert tries(throttle, FREE) == [0.0] * FREE
    for expected in (5.0, 10.0, 20.0, 40.0):
        assert throttle.begin("anna", "10.0.0.1") == expected
        clock.advance(expected - 0.5)
        assert throttle.begin("anna", "10.0.0.1") == 0.5
        clock.advance(0.5)
        assert throttle.begin("anna", "10.0.0.1") == 0.0


def test_the_wait_has_an_end() -> None:
    assert wait_s(FREE + 100) == 900


def test_waiting_tries_are_not_counted() -> None:
    throttle = LoginThrottle(ManualClock())
    tries(throttle, FREE + 20)
    assert throttle.failures("anna", "10.0.0.1") == FREE


def test_another_account_and_another_address_do_not_wait() -> None:
    throttle = LoginThrottle(ManualClock())
    tries(throttle, FREE)
    assert throttle.begin("bob", "10.0.0.1") == 0
    assert throttle.begin("anna", "10.0.0.2") == 0
    assert throttle.begin(" ANNA ", "10.0.0.1") > 0


def test_one_address_cannot_try_ever_more_accounts() -> None:
    throttle = LoginThrottle(ManualClock())
    assert [throttle.begin(f"user{n}", "10.0.0.1") for n in range(FREE_PER_ADDRESS)] == [0.0] * FREE_PER_ADDRESS
    assert throttle.begin("one-more", "10.0.0.1") > 0


def test_success_forgets_the_accounts_failures_and_takes_its_own_try_back() -> None:
    throttle = LoginThrottle(ManualClock())
    tries(throttle, FREE)
    throttle.succeeded("anna", "10.0.0.1")
    assert throttle.failures("anna", "10.0.0.1") == 0
    assert throttle.failures("", "10.0.0.1") == FREE - 1


def test_after_an_hour_the_count_starts_anew() -> None:
    clock = ManualClock()
    throttle = LoginThrottle(clock)
    tries(throttle, FREE)
    clock.advance(3601)
    assert tries(throttle, FREE) == [0.0] * FREE


def test_old_counts_are_removed_and_fresh_ones_stay() -> None:
    clock = ManualClock()
    throttle = LoginThrottle(clock)
    throttle.begin("anna", "10.0.0.1")
    clock.advance(3000)
    throttle.begin("bob", "10.0.0.2")
    clock.advance(1000)
    assert throttle.forget_old() == 2
    assert LoginFailures.objects.count() == 2


def test_what_was_typed_is_not_stored() -> None:
    LoginThrottle(ManualClock()).begin("my secret pass phrase", "10.0.0.1")
    assert "secret" not in str(list(LoginFailures.objects.values()))
