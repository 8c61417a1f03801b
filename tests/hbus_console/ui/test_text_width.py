from __future__ import annotations

import pytest

from hbus_console.ui.text_width import fitted, width_of


@pytest.mark.parametrize("text", ["billing", "W" * 120, "房間預訂" * 30, "🏨" * 40, "i" * 300, "x", ""])
@pytest.mark.parametrize("mono", [False, True])
def test_what_is_fitted_is_no_wider_than_its_room(text: str, mono: bool) -> None:
    short = fitted(text, 90, 11, mono=mono)
    assert width_of(short, 11, mono=mono) <= 90
    assert bool(short) is bool(text)


def test_what_fits_stays_whole_and_what_does_not_keeps_both_ends() -> None:
    assert fitted("partner-sync", 90, 11) == "partner-sync"
    short = fitted("reservations-of-the-north-1", 90, 11)
    assert short.startswith("res")
    assert short.endswith("-1")
    assert "…" in short
    assert fitted("W", 1, 11) == "W"
    assert fitted("WW", 1, 11) == "…"
