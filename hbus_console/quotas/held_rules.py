"""Which rules held in a span of time, and which buckets a limiter took its tokens from then.

Around a change nobody can say which of both books a node went by: a bucket counts there if it is in both, with the
larger of its limits.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, reduce

from engine.core.clock import to_datetime
from engine.core.errors import BadInput
from engine.quota import Book, OnLoss, Period, Rule, Whose
from engine.quota.terms import Name
from engine.quota.uses import Key
from hbus_console.quotas.models import QuotaBook
from hbus_console.quotas.services.books import plans_at, policies_at
from hbus_console.quotas.services.rules import book_of, policy_of
from hbus_console.quotas.sums import MINUTE_S

#: A node has a new book within a second; its telling and its clock may be off by more. Seconds.
SETTLE_S = 60
#: Books that are read of one span, the newest.
MOST_BOOKS = 500
_KEPT = 8


@dataclass(frozen=True, slots=True)
class HeldBucket:
    """A bucket, and the most that it allows by any of the books in force."""

    rule: str
    #: Whose it is; empty: all that the rule covers share it.
    owner: str
    #: Tokens a second, or in a period, and what it holds at once.
    limit: float
    room: float
    #: Tokens a second that all nodes together may spend of it while they are cut off.
    alone: float
    #: Whether everything passes meanwhile.
    lets_all: bool
    period: Period
    zone: str

    @property
    def policy(self) -> str:
        return policy_of(self.rule)

    def or_larger(self, other: HeldBucket) -> HeldBucket:
        """With the larger of both."""
        return replace(
            self,
            limit=max(self.limit, other.limit),
            room=max(self.room, other.room),
            alone=max(self.alone, other.alone),
            lets_all=self.lets_all or other.lets_all,
        )

    def is_like(self, other: HeldBucket) -> bool:
        """Whether both count the same way."""
        return (self.period, self.zone) == (other.period, other.zone)


class HeldRules:
    """Those of one or several books that were in force. Not thread-safe."""

    def __init__(self, books: Sequence[Book]) -> None:
        self._books = books
        self._found: dict[Key, tuple[HeldBucket, ...]] = {}

    def buckets(self, key: Key) -> tuple[HeldBucket, ...]:
        """Of a limiter: service, resource and tenant."""
        found = self._found.get(key)
        if found is None:
            found = self._found[key] = tuple(self._buckets(key))
        return found

    def _buckets(self, key: Key) -> Iterator[HeldBucket]:
        try:
            name = Name(*key)
        except BadInput:
            # No limiter can be called so: it is of another release.
            return
        of_each = [{(it.rule, it.owner): it for it in _of(book, name)} for book in self._books]
        for which, bucket in of_each[0].items() if of_each else ():
            same = [it for buckets in of_each if (it := buckets.get(which)) is not None and it.is_like(bucket)]
            if len(same) == len(of_each):
                yield reduce(HeldBucket.or_larger, same)


def _of(book: Book, name: Name) -> Iterator[HeldBucket]:
    for rule in book.rules_of(name):
        owner = rule.subject(name) if rule.whose is Whose.EACH else ""
        zone = rule.zone if rule.by_calendar else ""
        lets_all = rule.on_loss is OnLoss.OPEN
        alone = 0.0 if rule.on_loss is OnLoss.CLOSED else rule.alone()
        yield HeldBucket(rule.id, owner, rule.limit, rule.room(), alone, lets_all, rule.period, zone)


class BooksInForce:
    """The books of a span of time, in seconds since the epoch. Not thread-safe."""

    def __init__(self, from_s: int, to_s: int) -> None:
        rows = QuotaBook.objects.filter(made_at__lt=to_datetime((to_s + SETTLE_S) * 1000)).order_by("-number")
        books: list[tuple[int, float]] = []
        for number, made_at in rows.values_list("number", "made_at")[:MOST_BOOKS]:
            books.insert(0, (number, made_at.timestamp()))
            if made_at.timestamp() < from_s - SETTLE_S:
                break
        self._numbers = [number for number, _ in books]
        self._made = [made for _, made in books]
        self._book = lru_cache(_KEPT)(self._read)
        self._held = lru_cache(_KEPT)(self._together)
        #: By policy: the services and resources that it was about.
        self.about: dict[str, set[tuple[str, str]]] = {}

    @property
    def since_s(self) -> int | None:
        """The first minute of which it is known what held; ``None``: there was no book."""
        return -int(-(self._made[0] + SETTLE_S) // MINUTE_S) * MINUTE_S if self._made else None

    @property
    def begins(self) -> bool:
        """Whether nothing was limited before."""
        return self._numbers[0] == 1

    def at(self, from_s: int, to_s: int) -> HeldRules:
        """What held in all of that time, which begins after :attr:`since_s`."""
        return self._held(*self._places(from_s, to_s))

    def newest(self) -> Book:
        """The last of them; there is one."""
        return self._book(len(self._numbers) - 1)

    def is_in_all(self, rule: str, from_s: int, to_s: int) -> bool:
        """Whether every book of that time has the rule: one that was made anew has a full bucket."""
        first, last = self._places(from_s, to_s)
        return all(any(it.id == rule for it in self._book(place).rules) for place in range(first, last))

    def _places(self, from_s: int, to_s: int) -> tuple[int, int]:
        first = max(0, bisect_right(self._made, from_s - SETTLE_S) - 1)
        return first, bisect_left(self._made, to_s + SETTLE_S)

    def _together(self, first: int, last: int) -> HeldRules:
        return HeldRules([self._book(place) for place in range(first, last)])

    def _read(self, place: int) -> Book:
        number, at_ms = self._numbers[place], round(self._made[place] * 1000)
        # How many nodes there are is no part of what a rule allows.
        book = book_of(number, policies_at(number), plans_at(number), 1, at_ms)
        for rule in book.rules:
            self.about.setdefault(policy_of(rule.id), set()).add((rule.service, rule.resource))
        return book


def is_judged(rule: Rule) -> bool:
    """Whether it limits tokens: one in shadow refuses nothing, and seats count no time."""
    return not rule.shadow and rule.period is not Period.AT_ONCE
