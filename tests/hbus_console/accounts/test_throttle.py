from __future__ import annotations

import pytest

from engine.core.clock import ManualClock
from hbus_console.accounts.models import LoginFailures
from hbus_console.accounts.throttle import EACH_S, FREE, FREE_PER_ADDRESS, LoginThrottle, wait_s

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


def spend(throttle: LoginThrottle, address: str = "10.0.0.1") -> None:
    """Guess names from the address until it has to wait."""
    for number in range(FREE_PER_ADDRESS):
        assert throttle.begin(f"unknown{number}", address) == 0


def test_an_address_waits_no_longer_however_many_wrong_passwords_it_had() -> None:
    clock = ManualClock()
    throttle = LoginThrottle(clock)
    spend(throttle)
    for number in range(20):
        assert throttle.begin(f"more{number}", "10.0.0.1") == EACH_S
        clock.advance(EACH_S)
        assert throttle.begin(f"more{number}", "10.0.0.1") == 0
    clock.advance(3 * EACH_S + 1)
    assert [throttle.begin(f"last{number}", "10.0.0.1") > 0 for number in range(4)] == [False, False, False, True]


def test_who_signs_in_leaves_no_wait_to_others_of_the_address() -> None:
    clock = ManualClock()
    throttle = LoginThrottle(clock)
    spend(throttle)
    clock.advance(EACH_S)
    for account in ("admin", "gov", "edda"):
        assert throttle.begin(account, "10.0.0.1") == 0
        throttle.succeeded(account, "10.0.0.1")
    assert throttle.begin("unknown", "10.0.0.1") == 0
    assert throttle.begin("unknown too", "10.0.0.1") == EACH_S


def test_a_browser_in_which_the_account_was_signed_in_counts_for_itself() -> None:
    throttle = LoginThrottle(ManualClock())
    spend(throttle)
    tries(throttle, FREE + 3, "gov")
    assert throttle.begin("gov", "10.0.0.1") > 0
    assert [throttle.begin("gov", "10.0.0.1", "browser") for _ in range(FREE)] == [0.0] * FREE
    assert throttle.begin("gov", "10.0.0.2", "browser") == 5
    assert throttle.failures("gov", "10.0.0.1", "browser") == FREE
    assert throttle.begin("gov", "10.0.0.1", "another") == 0


def test_tries_of_a_known_browser_take_nothing_from_the_address() -> None:
    throttle = LoginThrottle(ManualClock())
    for number in range(FREE_PER_ADDRESS):
        throttle.begin("gov", "10.0.0.1", f"browser{number}")
        throttle.succeeded("gov", "10.0.0.1", f"browser{number}")
    spend(throttle)


@pytest.mark.parametrize(
    "addresses",
    [
        [f"2001:db8:1:2::{number:x}" for number in range(1, FREE + 2)],
        [f"2001:db8:1:2:{number:x}:{number:x}:0:1%eth0" for number in range(1, FREE + 2)],
        ["::ffff:10.0.0.1", "10.0.0.1", "::ffff:a00:1", "10.0.0.1", "::ffff:10.0.0.1", "10.0.0.1"],
    ],
)
def test_the_addresses_that_one_may_have_at_will_count_as_one(addresses: list[str]) -> None:
    throttle = LoginThrottle(ManualClock())
    assert [throttle.begin("anna", address) for address in addresses] == [0.0] * FREE + [5.0]


def test_no_name_stands_for_its_address() -> None:
    throttle = LoginThrottle(ManualClock())
    tries(throttle, FREE)
    assert throttle.begin("", "10.0.0.1") == 0


def test_success_forgets_the_accounts_failures_and_takes_its_own_try_back() -> None:
    throttle = LoginThrottle(ManualClock())
    tries(throttle, FREE)
    throttle.succeeded("anna", "10.0.0.1")
    assert throttle.failures("anna", "10.0.0.1") == 0
    for number in range(FREE_PER_ADDRESS - FREE + 1):
        assert throttle.begin(f"user{number}", "10.0.0.1") == 0
    assert throttle.begin("one-more", "10.0.0.1") > 0


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
