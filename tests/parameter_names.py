"""Refuses parameters that give a test no name of its own: workers of pytest-xdist compare names, and runs do too.

What :func:`gzip.compress` makes, say, holds the second it was made in: two workers that begin in different seconds
collect different tests, and the run ends before it began.
"""

from __future__ import annotations

from typing import Any

import pytest

#: What is longer and hardly legible was not written by hand.
_BY_HAND = 16
_LEGIBLE = range(0x20, 0x7F)


def pytest_make_parametrize_id(val: Any, argname: str) -> str | None:
    if isinstance(val, bytes) and len(val) > _BY_HAND and 2 * sum(each in _LEGIBLE for each in val) < len(val):
        raise pytest.UsageError(
            f"A value of {argname!r} is bytes that nobody can read: name it, by ids= or pytest.param"
        )
    return None
