from __future__ import annotations

from engine.bus.consuming.dispatch import FAST_S, MOST, Prefetch


def test_nothing_is_hoarded_before_anything_is_known() -> None:
    assert Prefetch(4).limit() == 4


def test_slow_handlers_get_one_delivery_a_thread() -> None:
    prefetch = Prefetch(4)
    prefetch.observe(2.0)
    assert prefetch.limit() == 4


def test_handlers_of_some_milliseconds_get_a_tenth_of_a_second_of_work() -> None:
    prefetch = Prefetch(4)
    prefetch.observe(0.010)
    assert prefetch.limit() == 44


def test_no_op_handlers_get_a_full_pipe() -> None:
    prefetch = Prefetch(1)
    for duration_s in (0.0, 0.00002):
        prefetch.observe(duration_s)
        assert 500 <= prefetch.limit() <= MOST


def test_it_follows_a_handler_that_becomes_slow() -> None:
    prefetch = Prefetch(2)
    for _ in range(100):
        prefetch.observe(0.0001)
    assert prefetch.limit() == MOST
    for _ in range(10):
        prefetch.observe(1.0)
    assert prefetch.limit() == 2


def test_what_need_not_be_observed_would_change_nothing_and_a_slow_one_always_counts() -> None:
    prefetch = Prefetch(1)
    assert prefetch.least_s == 0.0
    prefetch.observe(FAST_S / 2)
    before = prefetch.limit()
    prefetch.observe(prefetch.least_s * 0.99)
    assert (prefetch.least_s, prefetch.limit()) == (FAST_S, before)
    while prefetch.limit() > 1:
        assert prefetch.least_s <= FAST_S < 0.2
        prefetch.observe(0.2)
    assert prefetch.least_s == 0.0


def test_large_messages_are_not_hoarded_in_memory() -> None:
    prefetch = Prefetch(4)
    prefetch.observe(0.0)
    prefetch.weigh(4, 4 * 8 * 1024 * 1024)
    assert prefetch.limit() == 8
    prefetch.weigh(8, 8 * 64 * 1024 * 1024)
    assert prefetch.limit() == 4
    for _ in range(200):
        prefetch.weigh(500, 500 * 300)
    assert prefetch.limit() == MOST
