"""What a list that is being read says of itself: new is what came, and not what was there behind its end."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Console, Watched

#: Twelve letters of one cause, so that two stand behind the ten that its opened group shows first.
_DIE = """
from datetime import timedelta
from django.utils import timezone
from hbus_console.deadletters.models import DeadLetter
now = timezone.now()
for number in range({first}, {first} + {count}):
    print(DeadLetter.objects.create(
        topic="booking.cancelled", subscription="partner-sync", message_id=f"01K9READ{{number:018d}}", source="/desk",
        position=f"{{number}}-0", body=b"{{}}", cause="Unread: ...", error="Unread", fingerprint="{mark}",
        attempts=5, first_failed_at=now, died_at=now + timedelta(milliseconds=number)).pk)
"""
_DISCARD = """
from hbus_console.access.permissions import SYSTEM
from hbus_console.deadletters import services
services.discard(SYSTEM, {letter}, "not wanted any more")
"""


def die(console: Console, mark: str, *, first: int = 0, count: int = 12) -> list[int]:
    """The numbers of so many new letters of the cause ``mark``, oldest first."""
    script = _DIE.format(first=first, count=count, mark=mark)
    done = console.installation.manage("shell", "--no-imports", "-c", script)
    assert done.returncode == 0, done.stderr
    return [int(number) for number in done.stdout.split()]


def discard(console: Console, letter: int) -> None:
    done = console.installation.manage("shell", "--no-imports", "-c", _DISCARD.format(letter=letter))
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("mark", "at"), [("a1" * 8, "act=discard&letter={letter}"), ("b2" * 8, "open={mark}")])
def test_what_moved_up_from_behind_the_end_of_a_list_is_not_new(
    console: Console, watched: Watched, mark: str, at: str
) -> None:
    letters = die(console, mark)
    page = watched.open(f"/dead-letters/?topic=booking.cancelled&{at.format(letter=letters[-1], mark=mark)}")
    rows = page.locator("tr[data-among=letters]")
    expect(rows).to_have_count(10)
    if "letter" in at:
        page.fill("[name=reason]", "the desk is staffed again")
    discard(console, letters[5])
    said = page.locator("section[data-still] > .as-of")
    expect(said).to_contain_text("It has changed", timeout=60_000)
    expect(said).not_to_contain_text("new")
    expect(page.locator("tr[data-among=letters][data-gone]")).to_have_count(1)
    # What dies now comes before all of them, and beside it another moves up.
    die(console, mark, first=100, count=1)
    discard(console, letters[6])
    expect(said).to_contain_text("1 new letter", timeout=60_000)
    expect(page.locator("tr[data-among=letters][data-gone]")).to_have_count(2, timeout=60_000)
    expect(said).to_contain_text("1 new")
    expect(rows).to_have_count(10)


def test_what_was_pushed_behind_the_end_of_a_list_is_not_struck_out(console: Console, watched: Watched) -> None:
    mark = "c3" * 8
    letters = die(console, mark)
    page = watched.open(f"/dead-letters/?topic=booking.cancelled&act=discard&letter={letters[-1]}")
    page.fill("[name=reason]", "the desk is staffed again")
    rows = page.locator("tr[data-among=letters]")
    expect(rows).to_have_count(10)
    die(console, mark, first=100, count=3)
    said = page.locator("section[data-still] > .as-of")
    expect(said).to_contain_text("3 new letters", timeout=60_000)
    struck = page.locator("tr[data-among=letters][data-gone]")
    expect(struck).to_have_count(0)
    # Of what is gone the rest still says so.
    discard(console, letters[9])
    expect(struck).to_have_count(1, timeout=60_000)
