"""Where a list goes on: told in addresses, read strictly, and the rows after it."""

from __future__ import annotations

import pytest

from engine.core.errors import BadInput
from hbus_console import cursors
from hbus_console.accounts.models import User


def test_a_place_is_read_as_it_was_written() -> None:
    assert cursors.written(1_753_862_400_000, 17) == "1753862400000-17"
    assert cursors.read("1753862400000-17", 2) == (1_753_862_400_000, 17)
    assert cursors.read(cursors.written(0), 1) == (0,)


@pytest.mark.parametrize("cursor", ["", "x", "-", "1-", "-1", "1-x", "1-2-3", "1", " 1-2", "1-²", "1-" + "9" * 19])
def test_what_no_page_gave_is_refused(cursor: str) -> None:
    with pytest.raises(BadInput, match="does not exist") as refused:
        cursors.read(cursor, 2)
    assert refused.value.field == "cursor"


def test_a_page_tells_its_last_row_only_where_more_follow() -> None:
    assert cursors.cut([3, 2, 1], 2) == ([3, 2], 2)
    assert cursors.cut([3, 2], 2) == ([3, 2], None)
    assert cursors.cut([], 2) == ([], None)


@pytest.mark.django_db
def test_beyond_a_place_lies_what_follows_in_the_order_of_its_columns() -> None:
    """Each page begins where the one before ended, in both directions, also among equals."""
    for number, name in enumerate(("a", "b", "b", "c")):
        User.objects.create(username=f"u{number}", first_name=name)
    ordered = User.objects.exclude(first_name="").order_by("first_name", "-pk")
    rows = list(ordered)
    for at, row in enumerate(rows):
        rest = ordered.filter(cursors.beyond({"first_name": row.first_name, "-pk": row.pk}))
        assert list(rest) == rows[at + 1 :]
