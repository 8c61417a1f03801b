"""Figures and roles stand in rows that wrap: whatever the width, no ground shows where a row has room left."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.browser.conftest import Console, Watched

#: Selectors of which the ground can be seen: the right edge of each row's last part against the inside of the whole.
_LEFT_OVER = """() => [...document.querySelectorAll(".figures, .strip")].flatMap((whole) => {
  const inside = whole.getBoundingClientRect();
  const rows = new Map();
  for (const part of whole.children) {
    const box = part.getBoundingClientRect();
    if (box.width) rows.set(Math.round(box.top), Math.max(rows.get(Math.round(box.top)) ?? 0, box.right));
  }
  return [...rows.values()].map((right) => inside.right - right).filter((left) => left > 3);
})"""


@pytest.mark.parametrize("width", [390, 700, 900, 1024, 1180, 1440, 1900])
def test_the_last_row_is_filled(console: Console, new_page: Callable[..., Watched], width: int) -> None:
    watched = new_page(viewport={"width": width, "height": 900})
    for path in ("/", "/cluster/", "/topics/booking.created/", "/subscriptions/booking.created/availability/"):
        page = watched.open(path)
        assert page.locator(".figures, .strip").count()
        assert page.evaluate(_LEFT_OVER) == [], path
