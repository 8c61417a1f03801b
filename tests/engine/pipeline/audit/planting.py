"""Faults, planted at known counts into what is otherwise as it should be; each says what is to be found of it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from engine.pipeline.audit.findings import FindingKind
from tests.engine.pipeline.audit.telling import Booking, Delivery, Told

#: What is found: its kind, and the subscription.
Found = tuple[FindingKind, str]
HOUR_MS = 3_600_000


@dataclass
class Planter:
    """Each fault concerns other messages than all others; none concerns the first or last of a key."""

    told: Told
    expected: Counter[Found] = field(default_factory=Counter)
    #: By kind of finding: the messages it is about.
    ids: dict[Found, set[str]] = field(default_factory=lambda: defaultdict(set))
    _used: set[str] = field(default_factory=set)
    _next: int = 0

    def pick(self, number: int) -> list[Booking]:
        """Spread over all days, but for the last hour; no two are neighbours in their key."""
        of_key: dict[str, list[Booking]] = defaultdict(list)
        end_ms = self.told.stored[-1].stored_ms - 2 * HOUR_MS
        for each in self.told.stored:
            of_key[each.key].append(each)
        free = [
            each
            for of_it in of_key.values()
            for place, each in enumerate(of_it[1:-3], start=1)
            if place % 4 == 1
            and each.stored_ms < end_ms
            and not any(one.id in self._used or one.body for one in of_it[place - 1 : place + 3])
        ]
        free.sort(key=lambda each: each.id)
        step = max(1, len(free) // number)
        chosen = free[self._next % step :: step][:number]
        assert len(chosen) == number
        self._next += 1
        self._used.update(each.id for each in chosen)
        return chosen

    def expect(self, kind: FindingKind, ids: Iterable[str], subscription: str = "") -> None:
        wanted = list(ids)
        self.expected[kind, subscription] += len(wanted)
        self.ids[kind, subscription].update(wanted)

    def not_archived(self, number: int) -> None:
        ids = {each.id for each in self.pick(number)}
        self.told.stored = [each for each in self.told.stored if each.id not in ids]
        self.expect(FindingKind.MISSING, ids)
        # Their numbers are missing as well; none of them is the first or the last of its key.
        self.expected[FindingKind.GAP, ""] += number

    def not_told(self, number: int) -> None:
        ids = {each.id for each in self.pick(number)}
        self.told.published = [each for each in self.told.published if each.id not in ids]
        self.expect(FindingKind.UNTOLD, ids)

    def stored_again(self, number: int, **changes: object) -> None:
        chosen = self.pick(number)
        for each in chosen:
            place = self.told.stored.index(each) + 25
            # Time does not fall within a log.
            again = replace(each, stored_ms=self.told.stored[place].stored_ms, **changes)  # type: ignore[arg-type]
            self.told.stored.insert(place, replace(again, time_ms=again.stored_ms))
        kind = FindingKind.CONFLICTING if changes else FindingKind.DUPLICATE
        self.expect(kind, (each.id for each in chosen))

    def swapped(self, number: int) -> None:
        """Two neighbours of one key change places: the former one is behind."""
        for each in (chosen := self.pick(number)):
            place = self.told.stored.index(each)
            other = next(
                index for index in range(place + 1, len(self.told.stored)) if self.told.stored[index].key == each.key
            )
            later = self.told.stored[other]
            self._used.add(later.id)
            self.told.stored[place] = replace(later, stored_ms=each.stored_ms, time_ms=each.time_ms)
            self.told.stored[other] = replace(each, stored_ms=later.stored_ms, time_ms=later.time_ms)
        self.expect(FindingKind.OUT_OF_ORDER, (each.id for each in chosen))

    def never_published(self, number: int) -> None:
        """Ranges of two numbers."""
        gone, behind = set(), set()
        for each in self.pick(number):
            of_key = [one for one in self.told.stored if one.key == each.key]
            place = of_key.index(each)
            gone |= {each.id, of_key[place + 1].id}
            behind.add(of_key[place + 2].id)
        self._used |= gone | behind
        self.told.without(gone)
        self.expected[FindingKind.GAP, ""] += 2 * number
        self.ids[FindingKind.GAP, ""] |= behind

    def not_delivered(self, number: int, subscription: str) -> None:
        ids = {each.id for each in self.pick(number)}
        self._replace(ids, subscription, [])
        self.expect(FindingKind.NO_OUTCOME, ids, subscription)

    def happened(self, number: int, subscription: str, kind: FindingKind, kinds: Iterable[str]) -> None:
        """What is told of these is something else, attempt by attempt."""
        ids = {each.id for each in self.pick(number)}
        self._replace(ids, subscription, list(kinds))
        self.expect(kind, ids, subscription)

    def interrupted(self, number: int, subscription: str) -> None:
        """Their first attempt is told by nobody, the second failed, and the third settled them."""
        ids = {each.id for each in self.pick(number)}
        self._replace(ids, subscription, ["", "retried", "settled"])
        self.told.deliveries = [each for each in self.told.deliveries if each.kind]
        self.expect(FindingKind.INTERRUPTED, ids, subscription)
        self.expect(FindingKind.RETRIED, ids, subscription)

    def off_the_clock(self, number: int) -> None:
        ids = {each.id for each in self.pick(number)}
        self.told.stored = [
            replace(each, time_ms=each.stored_ms + HOUR_MS) if each.id in ids else each for each in self.told.stored
        ]
        self.expect(FindingKind.SKEWED, ids)

    def of_another_source(self, number: int, source: str) -> None:
        """Published and handled like all others."""
        chosen = self.pick(number)
        for each in chosen:
            strange = replace(each, id=f"x{each.id}", source=source, sequence="")
            self.told.stored.insert(self.told.stored.index(each), strange)
            self.told.published.append(strange)
            self.told.deliveries += [
                replace(one, id=strange.id, source=source) for one in self.told.deliveries if one.id == each.id
            ]
        self.expect(FindingKind.FOREIGN, (f"x{each.id}" for each in chosen))

    def no_envelope(self, number: int) -> None:
        chosen = self.pick(number)
        for each in chosen:
            self.told.stored.insert(self.told.stored.index(each), replace(each, id="", body=b'{"specversion":"1.0"}'))
        self.expected[FindingKind.MALFORMED, ""] += number

    def of_another_form(self, number: int) -> None:
        """Their payload is none that their topic has."""
        ids = {each.id for each in self.pick(number)}
        self.told.stored = [replace(each, data={"booking": 7}) if each.id in ids else each for each in self.told.stored]
        self.expect(FindingKind.UNFIT, ids)

    def told_of_nobody(self, number: int, subscription: str) -> None:
        for each in self.pick(number):
            self.told.deliveries.append(
                Delivery(f"nobody-{each.id}", each.source, subscription, "settled", each.stored_ms + 9)
            )
        self.expected[FindingKind.ORPHAN, ""] += number

    def _replace(self, ids: set[str], subscription: str, kinds: list[str]) -> None:
        made: list[Delivery] = []
        for each in self.told.deliveries:
            if each.id in ids and each.subscription == subscription:
                made += [
                    replace(each, kind=kind, attempt=attempt, at_ms=each.at_ms + 10 * attempt)
                    for attempt, kind in enumerate(kinds, start=1)
                ]
            else:
                made.append(each)
        self.told.deliveries = made
