from __future__ import annotations

import pytest

from engine.bus.errors import UnknownTopic
from engine.bus.transport import Outgoing
from engine.core.clock import ManualClock
from engine.core.errors import BadInput
from hbus_console.access.permissions import Forbidden
from hbus_console.messages import browsing
from hbus_console.messages.browsing import Condition, peek, scan
from hbus_console.topics.models import Topic
from hbus_console.wiring import bus
from tests.hbus_console.messages.conftest import BOOKING, TOPIC, person, publish

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])

ALL = person("viewer")


@pytest.mark.usefixtures("installation")
class TestPeek:
    def test_the_newest_come_first_masked_and_nothing_is_consumed(self) -> None:
        sent = [publish() for _ in range(3)]
        before = bus.admin().lag(TOPIC, "billing")
        found = peek(ALL, TOPIC)
        assert [seen.message.id for seen in found.entries if seen.message] == sent[::-1]
        assert found.entries[0].payload.value["guest"]["name"] == "masked · personal"
        assert found.entries[0].payload.hidden == ("guest.name",)
        assert "Ana Lima" not in str(found.entries[0].payload)
        assert bus.admin().lag(TOPIC, "billing") == before

    def test_pages_lead_to_the_end_of_the_log(self) -> None:
        sent = [publish() for _ in range(5)]
        first = peek(ALL, TOPIC, size=3)
        rest = peek(ALL, TOPIC, cursor=first.next_cursor, size=3)
        found = [seen.message.id for seen in [*first.entries, *rest.entries] if seen.message]
        assert found == sent[::-1]
        assert (rest.next_cursor, rest.stopped) == ("", "the log ends here")

    def test_it_takes_the_right_to_read_payloads_there(self) -> None:
        with pytest.raises(Forbidden):
            peek(person("admin", "stay.*"), TOPIC)
        with pytest.raises(UnknownTopic):
            peek(ALL, "nobody.knows")

    def test_it_stays_in_the_time_range(self) -> None:
        publish()
        now_ms = peek(ALL, TOPIC).entries[0].at_ms
        late = peek(ALL, TOPIC, start_ms=now_ms + 1)
        assert (late.entries, late.next_cursor, late.stopped) == ([], "", "the time range begins here")
        assert not peek(ALL, TOPIC, end_ms=now_ms).entries
        assert peek(ALL, TOPIC, start_ms=now_ms, end_ms=now_ms + 1).entries

    @pytest.mark.parametrize(("masks", "told"), [(["guest.name"], False), ([], True)])
    def test_what_is_no_envelope_has_no_size_where_something_is_masked(self, masks: list[str], told: bool) -> None:
        """Nor is it told at which byte it cannot be read any further, for that lies behind what is masked."""
        Topic.objects.filter(name=TOPIC).update(masked_fields=masks, classification="internal")
        seen = []
        for name in ("Ana", "Friedrich"):
            body = f'{{"data": {{"guest": {{"name": "{name}"}}}}, what?'
            bus.transport().publish(TOPIC, [Outgoing(name, body.encode())])
            seen.append(peek(ALL, TOPIC, size=1).entries[0])
        assert [each.message for each in seen] == [None, None]
        assert ((seen[0].payload, seen[0].broken) != (seen[1].payload, seen[1].broken)) is told
        assert (seen[0].payload.size is not None) is told


@pytest.mark.usefixtures("installation")
class TestScan:
    def test_what_is_hidden_whole_fits_nothing(self) -> None:
        """Found by a stranger: the payload was shown as masked, and a search told what it holds."""
        seen = publish({**BOOKING, "note": "SECRETNOTE"})
        hidden = publish({**BOOKING, "guest": "plain text", "note": "SECRETNOTE"})
        assert {each.message.id for each in peek(ALL, TOPIC).entries if each.message} == {seen, hidden}
        found = scan(ALL, TOPIC, Condition.read("note~SECRET"))
        assert [each.message.id for each in found.entries if each.message] == [seen]

    def test_nor_does_one_that_has_two_members_of_one_name(self) -> None:
        """Which of the two is masked differs from reader to reader, so it is hidden whole, and found by neither."""
        for note in ('"note": "PINX", "note": "PINY"', '"guest": {"name": "a", "name": "b"}, "note": "PINY"'):
            body = f'{{"id": "d1", "source": "/s", "type": "t", "specversion": "1.0", "data": {{{note}}}}}'
            bus.transport().publish(TOPIC, [Outgoing("d1", body.encode())])
        assert [each.payload.hidden for each in peek(ALL, TOPIC).entries] == [("*",), ("*",)]
        for asked in ("note=PINY", "note=PINX", "note~PIN"):
            assert scan(ALL, TOPIC, Condition.read(asked)).entries == []
        Topic.objects.filter(name=TOPIC).update(masked_fields=[], classification="internal")
        assert len(scan(ALL, TOPIC, Condition.read("note=PINY")).entries) == 2

    def test_it_finds_by_payload_field_and_counts_what_it_looked_at(self) -> None:
        wanted = publish()
        for _ in range(4):
            publish({**BOOKING, "room": {"code": "SGL"}})
        found = scan(ALL, TOPIC, Condition.read("room.code=DBL-SEA"))
        assert [seen.message.id for seen in found.entries if seen.message] == [wanted]
        assert (found.scanned, found.stopped, found.next_cursor) == (5, "the log ends here", "")

    def test_a_full_page_can_be_continued_without_gap_or_repeat(self) -> None:
        sent = [publish() for _ in range(7)]
        seen: list[str] = []
        cursor = ""
        while True:
            found = scan(ALL, TOPIC, Condition.read("booking=48213"), cursor=cursor, size=3)
            seen += [each.message.id for each in found.entries if each.message]
            cursor = found.next_cursor
            if not cursor:
                break
        assert seen == sent[::-1]

    def test_it_stops_at_its_bound_says_so_and_goes_on_from_there(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(browsing, "MOST_SCANNED", 4)
        oldest = publish({**BOOKING, "booking": 1})
        for _ in range(6):
            publish()
        found = scan(ALL, TOPIC, Condition.read("booking=1"))
        assert (found.scanned, len(found.entries)) == (4, 0)
        assert found.stopped == "one search looks at 4 messages"
        rest = scan(ALL, TOPIC, Condition.read("booking=1"), cursor=found.next_cursor)
        assert [seen.message.id for seen in rest.entries if seen.message] == [oldest]

    def test_it_stops_after_its_time(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(browsing, "_BROWSE", 2)

        class Hurried(ManualClock):
            def monotonic(self) -> float:
                self.advance(browsing.LONGEST_S)
                return super().monotonic()

        for _ in range(5):
            publish()
        found = scan(ALL, TOPIC, Condition.read("booking=1"), clock=Hurried())
        assert (found.scanned, found.stopped) == (2, "2 seconds passed")
        assert found.next_cursor

    def test_it_stays_in_the_time_range(self) -> None:
        publish()
        now_ms = peek(ALL, TOPIC).entries[0].at_ms
        condition = Condition.read("booking=48213")
        assert scan(ALL, TOPIC, condition, start_ms=now_ms + 1).stopped == "the time range begins here"
        assert scan(ALL, TOPIC, condition, start_ms=now_ms).entries
        assert not scan(ALL, TOPIC, condition, end_ms=now_ms).entries
        assert scan(ALL, TOPIC, condition, end_ms=now_ms + 1).entries

    @pytest.mark.parametrize(
        "field", ["guest.name=Ana Lima", "guest~Ana", "guest.name.first=Ana", "guest[0].name~Ana", "guest[].name~Ana"]
    )
    def test_what_is_masked_cannot_be_searched_by(self, field: str) -> None:
        with pytest.raises(BadInput, match="masked") as refused:
            scan(person("admin"), TOPIC, Condition.read(field))
        assert refused.value.field == "field"


@pytest.mark.parametrize(
    ("condition", "fits"),
    [
        ("booking=48213", True),
        ("booking=4821", False),
        ("room.code=DBL-SEA", True),
        ("room.code~sea", True),
        ("room~SEA", True),
        ("adr=117.30", True),
        ("tags=sea", True),
        ("tags[0]=sea", True),
        ("tags[1]=sea", False),
        ("tags[]=sea", True),
        # A step of digits is a name: a list has places, and they stand in brackets.
        ("tags.0=sea", False),
        (f"tags[{'9' * 5000}]=sea", False),
        ("nothing=x", False),
        ("  room.code  =  DBL-SEA ", True),
    ],
)
def test_conditions(condition: str, fits: bool) -> None:
    assert Condition.read(condition).fits(BOOKING) is fits


@pytest.mark.parametrize("text", ["", "room", "=x", "room=", "a b=c", "room..code=x"])
def test_a_malformed_condition_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(BadInput, match="field=value") as refused:
        Condition.read(text)
    assert refused.value.field == "field"
