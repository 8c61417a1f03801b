"""Parts of a duty that share its time: none that cannot move keeps another from its turn."""

from __future__ import annotations

from collections.abc import Callable

from hbus_console.turns import Turns


def once(seen: list[str], name: str) -> Callable[[], bool]:
    return lambda: bool(seen.append(name))


def test_whoever_waits_longest_comes_first_and_more_is_done_while_there_is_time() -> None:
    turns, seen = Turns[str](), list[str]()
    left = {"a": 3, "b": 1, "c": 0}

    def work(name: str) -> bool:
        seen.append(name)
        left[name] -= 1
        return left[name] > 0

    turns.take({name: lambda name=name: work(name) for name in left}, lambda: True)  # type: ignore[misc]
    assert seen == ["a", "b", "c", "a", "a"]
    # With time for one turn alone, each has one in its round
    seen.clear()
    for _ in range(4):
        began = len(seen)
        turns.take({name: once(seen, name) for name in "abc"}, lambda began=began: len(seen) == began)  # type: ignore[misc]
    assert seen == ["b", "c", "a", "b"]


def test_who_is_new_comes_before_who_had_a_turn_and_who_is_gone_is_forgotten() -> None:
    turns, seen = Turns[str](), list[str]()
    turns.take({"a": once(seen, "a")}, lambda: True)
    turns.take({"a": once(seen, "a"), "b": once(seen, "b")}, lambda: True)
    turns.take({"b": once(seen, "b")}, lambda: True)
    turns.take({"b": once(seen, "b"), "a": once(seen, "a")}, lambda: True)
    assert seen == ["a", "b", "a", "b", "a", "b"]
