from __future__ import annotations

import pytest

from engine.core.numbers import whole


@pytest.mark.parametrize(("text", "number"), [("0", 0), ("7", 7), ("007", 7), ("9" * 18, 10**18 - 1)])
def test_ascii_digits_are_a_number(text: str, number: int) -> None:
    assert whole(text) == number


@pytest.mark.parametrize("text", ["", "²", "٣", "-1", "+1", "1.0", "1_000", " 1", "1\n", "1e3", "9" * 19, "9" * 5_000])
def test_anything_else_is_none(text: str) -> None:
    assert whole(text) is None
