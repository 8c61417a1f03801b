"""A topic can be read without consuming it, from both ends, by position and by time."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from engine.bus import bounds
from engine.bus.conformance.base import TransportTests, Workbench, bodies, numbered
from engine.bus.conformance.promises import needs
from engine.bus.transport import Priority, Stored
from engine.core.errors import BadInput


def read_all(bench: Workbench, *, limit: int, newest_first: bool) -> list[Stored]:
    """Every page of the topic, one after the other."""
    found: list[Stored] = []
    after = ""
    while True:
        page = bench.admin.browse(bench.topic, after=after, limit=limit, newest_first=newest_first)
        assert len(page.entries) <= limit
        found += page.entries
        after = page.next_position
        if not after:
            return found


@needs("browse")
class BrowsingConformance(TransportTests):
    @pytest.mark.parametrize("newest_first", [False, True])
    @pytest.mark.parametrize("limit", [1, 4, 24, 100])
    @needs("priority")
    def test_pages_cover_all_priorities_without_gap_or_overlap(
        self, bench: Workbench, pass_time: Callable[[float], None], limit: int, newest_first: bool
    ) -> None:
        # Given messages of all priorities, some in the same millisecond
        priorities = [Priority.NORMAL, Priority.HIGH, Priority.LOW, Priority.NORMAL]
        for index in range(24):
            bench.publish(b"m%d" % index, priority=priorities[index % 4])
            if index % 5 == 0:
                pass_time(1)

        # When they are read page by page
        found = read_all(bench, limit=limit, newest_first=newest_first)

        # Then each comes once, in the order of time
        assert sorted(stored.body for stored in found) == sorted(numbered(24))
        times = [stored.at_ms for stored in found]
        assert times == sorted(times, reverse=newest_first)

    @needs("priority")
    def test_both_directions_are_the_same_list(self, bench: Workbench) -> None:
        for priority in Priority:
            bench.publish(*numbered(5), priority=priority)

        forward = read_all(bench, limit=4, newest_first=False)

        assert read_all(bench, limit=4, newest_first=True) == forward[::-1]

    def test_an_entry_tells_where_and_when_and_how_urgent(self, bench: Workbench) -> None:
        (outcome,) = bench.publish(b"x", priority=Priority.HIGH)

        (stored,) = bench.admin.browse(bench.topic).entries

        assert stored == Stored(outcome.position, bench.clock.now_ms(), b"x", Priority.HIGH)

    @pytest.mark.parametrize("newest_first", [False, True])
    def test_pages_of_large_messages_are_short_and_the_pages_together_hold_all(
        self, bench: Workbench, monkeypatch: pytest.MonkeyPatch, newest_first: bool
    ) -> None:
        monkeypatch.setattr(bounds, "PAGE_BYTES", 750_000)
        # Large ones among small ones, by which nobody could tell, and one that is larger than there is room for
        weights = [10] * 40 + [300_000] * 5 + [10, 900_000, 10] + [10] * 40
        bodies = [b"%02d" % number + b"x" * weight for number, weight in enumerate(weights)]
        bench.publish(*bodies)

        told: list[bytes] = []
        after = ""
        while True:
            page = bench.admin.browse(bench.topic, after=after, limit=500, newest_first=newest_first)
            told += [stored.body[:2] for stored in page.entries]
            assert len(page.entries) == 1 or sum(len(each.body) for each in page.entries) <= bounds.PAGE_BYTES
            after = page.next_position
            if not after:
                break

        assert told == [body[:2] for body in (reversed(bodies) if newest_first else bodies)]

    def test_an_instant_leads_to_the_messages_of_that_time(
        self, bench: Workbench, pass_time: Callable[[float], None]
    ) -> None:
        times = []
        for body in numbered(3):
            times.append(bench.clock.now_ms())
            bench.publish(body)
            pass_time(10)

        def browse(at_ms: int, newest_first: bool) -> list[bytes]:
            page = bench.admin.browse(bench.topic, after=f"@{at_ms}", newest_first=newest_first)
            return [stored.body for stored in page.entries]

        assert browse(times[1], False) == [b"m1", b"m2"]
        assert browse(times[1] + 1, False) == [b"m2"]
        assert browse(times[1], True) == [b"m1", b"m0"]
        assert browse(times[1] - 1, True) == [b"m0"]

    def test_browsing_consumes_nothing(self, bench: Workbench) -> None:
        bench.publish(*numbered(5))
        bench.admin.browse(bench.topic)
        assert bodies(bench.drain(bench.receiver())) == numbered(5)

    def test_consuming_removes_nothing_from_the_topic(self, bench: Workbench) -> None:
        bench.publish(*numbered(5))
        bench.drain(bench.receiver())
        assert [stored.body for stored in bench.admin.browse(bench.topic).entries] == numbered(5)

    def test_an_empty_topic_has_one_empty_page(self, bench: Workbench) -> None:
        page = bench.admin.browse(bench.topic)
        assert (page.entries, page.next_position) == ([], "")

    def test_a_position_that_was_trimmed_reads_as_nothing(self, bench: Workbench) -> None:
        (outcome,) = bench.publish(b"x")
        bench.drain(bench.receiver())
        bench.admin.trim(bench.topic, older_than_ms=None, keep_at_most=0)

        assert bench.admin.read(bench.topic, outcome.position) is None

    def test_what_is_no_position_is_refused(self, bench: Workbench) -> None:
        for act in (
            lambda: bench.admin.browse(bench.topic, after="nonsense"),
            lambda: bench.admin.browse(bench.topic, after="nonsense", newest_first=True),
            lambda: bench.admin.read(bench.topic, "nonsense"),
        ):
            with pytest.raises(BadInput) as caught:
                act()
            assert caught.value.field == "position"
