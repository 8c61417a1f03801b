"""Names may wrap behind their dots and underscores, and stay what they are."""

from __future__ import annotations

import pytest

from hbus_console.ui.formats import breakable


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("nightly-close", "nightly-close"),
        ("hotel.night.rate_parity", "hotel.<wbr>night.<wbr>rate_<wbr>parity"),
        ("a.<b>", "a.<wbr>&lt;b&gt;"),
        ("ends.", "ends."),
        ("", ""),
    ],
)
def test_a_name_may_wrap_where_its_words_end(name: str, written: str) -> None:
    assert str(breakable(name)) == written
