from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

import pytest

from engine.core.stack_text import EXCEPTIONS, MEMBERS, PLACES, STACK_BYTES, stack_of


def caught(call: Callable[..., Any], *given: Any) -> BaseException:
    with pytest.raises(BaseException) as raised:  # noqa: PT011
        call(*given)
    return raised.value


def made(source: str, file: str = "<made up>", **names: Any) -> dict[str, Any]:
    exec(compile(source, file, "exec"), names)
    return names


class Mute(Exception):
    def __str__(self) -> str:
        raise SystemExit("nothing to say")


class Odd(Exception):
    @property
    def __cause__(self) -> BaseException | None:  # type: ignore[override]
        raise RuntimeError("no cause for you")

    @property
    def __traceback__(self) -> Any:  # type: ignore[override]
        raise RuntimeError("no place for you")


def charge(booking: int) -> None:
    secret = "hunter2"
    raise ValueError(f"no room for {booking}, {len(secret)}")


def test_it_names_the_places_and_their_source_and_no_value_of_a_variable() -> None:
    stack = stack_of(caught(charge, 48213))
    lines = stack.splitlines()
    assert lines[-2].endswith(", in charge")
    assert lines[-1].strip() == 'raise ValueError(f"no room for {booking}, {len(secret)}")'
    assert "48213" not in stack
    assert "hunter2" not in stack


def test_paths_are_those_below_a_folder_that_is_imported_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [os.sep + "srv", os.path.join(os.sep, "srv", "hotel"), ""])
    inside, outside = os.path.join(os.sep, "srv", "hotel", "rates", "a.py"), os.path.join(os.sep, "h", "x", "y", "z.py")
    for file, shown in ((inside, os.path.join("rates", "a.py")), (outside, "…/x/y/z.py")):
        fail = made("def fail(): raise ValueError", file)["fail"]
        assert f'File "{shown}", line 1, in fail' in stack_of(caught(fail))


def test_a_deep_recursion_is_one_place_with_its_number_of_times() -> None:
    def sink(depth: int) -> None:
        if depth == 0:
            raise ValueError
        sink(depth - 1)

    stack = stack_of(caught(sink, 900))
    assert "[900 times in a row]" in stack
    assert len(stack.encode()) < 1_000


def test_of_many_places_the_innermost_are_kept_and_the_cut_is_said() -> None:
    source = "def f0(): raise ValueError\n" + "\n".join(f"def f{n}(): f{n - 1}()" for n in range(1, 100))
    lines = stack_of(caught(made(source)["f99"])).splitlines()
    assert lines[-1].endswith("in f0")
    # This test's own two places are among those that were met.
    assert lines[0].strip() == f"… {100 + 1 - PLACES} places further out are cut"
    assert len(lines) == PLACES + 1


def test_it_is_bounded_in_bytes_whatever_the_lines_are() -> None:
    names = [f"{'é' * 150}{number}" for number in range(40)]
    source = f"def {names[0]}(): raise ValueError\n" + "\n".join(
        f"def {name}(): {names[number]}()" for number, name in enumerate(names[1:])
    )
    error = caught(made(source)[names[-1]])
    stack = stack_of(error)
    assert STACK_BYTES / 2 < len(stack.encode()) <= STACK_BYTES
    assert stack.endswith(f"in {names[0]}")
    error.__cause__ = ValueError("\ud800" * 100_000)
    assert len(stack_of(error).encode()) <= STACK_BYTES
    assert len(stack_of(error, 700).encode()) <= 700


def test_where_it_came_from_is_told_with_its_own_places() -> None:
    def outer() -> None:
        try:
            charge(1)
        except ValueError as error:
            raise RuntimeError("outer") from error

    def handling() -> None:
        try:
            outer()
        except RuntimeError:
            raise KeyError("late")  # noqa: B904

    told = [line for line in stack_of(caught(handling)).splitlines() if not line.startswith(" ")]
    assert told == ["raised while handling RuntimeError: outer", "caused by ValueError: no room for 1, 7"]
    silenced = caught(handling)
    silenced.__suppress_context__ = True
    assert "raised while handling" not in stack_of(silenced)


def test_a_chain_that_is_long_or_goes_round_ends() -> None:
    first = last = ValueError("0")
    for number in range(1, 100):
        last.__cause__ = ValueError(str(number))
        last = last.__cause__
    assert stack_of(first).count("caused by") == EXCEPTIONS - 1
    last.__cause__ = first
    one, other = ValueError("one"), ValueError("other")
    one.__cause__, other.__cause__ = other, one
    assert stack_of(one) == "caused by ValueError: other"


def test_members_of_a_group_are_told_a_few_of_them() -> None:
    group = ExceptionGroup("both", [caught(charge, number) for number in range(9)])  # type: ignore[type-var]
    stack = stack_of(group)
    assert stack.count("one of 9 in the group: ValueError") == MEMBERS
    assert stack.count("in charge") == MEMBERS


def test_broken_exceptions_and_loaders_cost_no_more_than_their_part() -> None:
    class Loader:
        def get_source(self, name: str) -> str:
            raise RuntimeError("no source")

    error = caught(made("def fail(): raise ValueError('x')", "<lost>", __name__="m", __loader__=Loader())["fail"])
    error.__cause__ = Mute()
    stack = stack_of(error)
    assert 'File "<lost>", line 1, in fail' in stack
    assert "caused by Mute: (its text cannot be had: SystemExit)" in stack
    assert stack_of(Odd()) == stack_of(Mute()) == stack_of(ValueError("not raised")) == ""

    def refuse(error: BaseException) -> str:
        raise SystemExit

    assert stack_of(error, said=refuse) == "(its stack trace cannot be had: SystemExit)"


def test_a_credential_in_a_line_of_source_is_left_out() -> None:
    def connect() -> None:
        raise OSError("redis://hbus:hunter2@store:6379")

    error = caught(connect)
    error.__cause__ = OSError("Bearer abcdefghijkl")
    stack = stack_of(error)
    assert "redis://hbus:[redacted]@store:6379" in stack
    assert "hunter2" not in stack
    assert "abcdefghijkl" not in stack
