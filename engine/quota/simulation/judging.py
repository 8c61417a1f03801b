"""What must never be of a history: told from what went over the wires and through the doors, in books of its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from engine.quota.book import Book
from engine.quota.protocol import Alloc, Answer, BucketLink, KeptRule, Want
from engine.quota.simulation.buckets import BucketBook
from engine.quota.simulation.clocks import BEGIN_S
from engine.quota.simulation.doors import Alone, Door
from engine.quota.simulation.timeline import Timeline
from engine.quota.terms import OnLoss

#: What nobody has been told so long after it was sold is lost, in seconds.
LOST_S = 8.0


class Judge:
    """Hears of everything as it happens; :attr:`found` is what must not be."""

    def __init__(self, timeline: Timeline) -> None:
        self.found: list[str] = []
        self.sold = self.spent = self.alone = 0
        self._timeline = timeline
        self._books: dict[int, Book] = {}
        self._rules: dict[int, Mapping[str, KeptRule]] = {}
        self._buckets: dict[BucketLink, BucketBook] = {}
        self._told: dict[str, tuple[int, Alloc]] = {}
        #: Sold, and not yet known to have come; and of whom.
        self._under_way: dict[str, tuple[int, tuple[BucketLink, ...]]] = {}
        #: What was answered last, by limiter and life of its process; and which of that has come.
        self._last: dict[tuple[str, str], tuple[int, Want, Alloc]] = {}
        self._heard: set[str] = set()
        #: What each process may spend of each bucket by itself.
        self._alone: dict[tuple[str, str, str], Alone] = {}
        self._plane_s = BEGIN_S

    def publishes(self, book: Book) -> None:
        """Somebody has made these rules; where they come to is another matter."""
        self._books[book.version] = book
        self._rules[book.version] = book.kept()[1]

    # At the control plane -------------------------------------------------------------------------------------------

    def forgot(self, wall: float) -> None:
        for bucket in self._buckets.values():
            bucket.forgot(wall)

    def ruled(self, before: int, after: int) -> None:
        if after < before:
            self._find([f"rules of version {after} took the place of version {before}"])

    def answered(self, want: Want, alloc: Alloc, epoch: int, wall: float) -> None:
        if alloc.answer is Answer.LATE:
            later = self._last.get((want.limiter, want.life))
            if later is None or later[1].number <= want.number:
                self._find([f"{want.limiter} on {want.node} was not late with its Want {want.number}"])
            return
        known = self._told.get(want.id)
        if known is not None and known[0] == epoch:
            if known[1] != alloc:
                self._find([f"{want.limiter} on {want.node} was answered anew: {known[1].granted}, {alloc.granted}"])
            return
        rules = self._rules.get(alloc.version, {})
        for link in want.chain:
            if link.rule in rules:
                self._bucket(link, rules[link.rule], wall).touch(rules[link.rule], wall)
        if alloc.answer is not Answer.GRANTED:
            return
        self._told[want.id] = (epoch, alloc)
        self.sold += alloc.granted
        unheard, charged = self._unheard(want, epoch)
        for number, link in enumerate(want.chain):
            bucket = self._buckets[link]
            bucket.returned(unheard)
            if known is None:
                if want.born[number : number + 1] == alloc.born[number : number + 1]:
                    bucket.returned(want.returned)
                else:
                    # Of a bucket that is no more.
                    bucket.burnt(want.returned)
                bucket.repaid(max(0, want.repaid - charged))
            self._find(bucket.sold(alloc.granted))
        self._last[want.limiter, want.life] = (epoch, want, alloc)
        if alloc.granted:
            self._under_way[want.id] = (alloc.granted, want.chain)
            self._timeline.add(self._timeline.now + LOST_S, lambda: self._burn(want.id))

    def tokens(self) -> float:
        """The least that may be sold of any bucket."""
        return min((bucket.tokens for bucket in self._buckets.values()), default=0.0)

    # At the doors ---------------------------------------------------------------------------------------------------

    def asks(self, door: Door, want: Want) -> None:
        self._find(door.asks(want.id, want.returned, want.repaid, want.born, self._timeline.now))

    def is_told(self, door: Door, want: Want, alloc: Alloc) -> None:
        if alloc.answer is Answer.GRANTED:
            if self._under_way.pop(alloc.id, None) is None:
                # It was given up too soon.
                self._burnt(-alloc.granted, want.chain)
            self._heard.add(alloc.id)
            for link in door.chain:
                self._alone_of(door, link).begun = False
            door.comes(alloc.id, alloc.granted, alloc.lifetime_s, alloc.born)
        else:
            door.refused(want.id, want.returned, want.repaid, want.born)

    def stands_in(self, door: Door, n: int, version: int) -> None:
        """A limiter has let so many in by itself, or none of those who would have been."""
        door.pending_alone += n
        door.alone_ever += n
        self.alone += n
        for link in door.chain:
            missing = self._alone_of(door, link).take(n, self._rate_alone(link, version), self._timeline.now)
            if missing:
                self._find([f"{door.name} spent {missing:.3f} of {n} tokens of {link.rule} alone beyond its part"])

    def admits(self, door: Door, n: int, late_s: float) -> None:
        """Somebody was let in."""
        if door.pending_alone >= n:
            door.pending_alone -= n
            return
        self.spent += n
        self._find(door.spends(n, self._timeline.now, late_s))
        for link in door.chain:
            self._find(self._buckets[link].spent(n) if link in self._buckets else [f"{link} was never sold of"])

    def dies(self, doors: Iterable[Door]) -> None:
        """What these hold nobody spends, and nobody returns, once the last of what they said has come through."""
        for door in doors:
            left, chain = door.outstanding(), door.chain
            self._timeline.add(self._timeline.now + LOST_S, lambda left=left, chain=chain: self._burnt(left, chain))  # type: ignore[misc]

    def owes(self, doors: Iterable[Door]) -> None:
        """What they spent alone until things went right must have been reported by now."""
        for door in doors:
            if door.reported < door.alone_before:
                self._find([f"{door.name} spent {door.alone_before} tokens alone, and reported {door.reported}"])

    def holds(self, who: str, before: int, version: int) -> None:
        """Which version of the rules somebody goes by."""
        if version < before:
            self._find([f"{who} went from version {before} of the rules back to {version}"])

    def _find(self, found: Iterable[str]) -> None:
        self.found += [f"{self._timeline.now:7.3f}  {what}" for what in found]

    def _bucket(self, link: BucketLink, rule: KeptRule, wall: float) -> BucketBook:
        bucket = self._buckets.get(link)
        if bucket is None:
            bucket = self._buckets[link] = BucketBook(f"{link.rule}/{link.owner}", rule, wall)
        return bucket

    def _burn(self, want_id: str) -> None:
        if sold := self._under_way.pop(want_id, None):
            self._burnt(*sold)

    def _burnt(self, n: int, chain: Iterable[BucketLink]) -> None:
        for link in chain:
            if link in self._buckets:
                self._buckets[link].burnt(n)

    def _unheard(self, want: Want, epoch: int) -> tuple[int, int]:
        """Of what this limiter was told before and nobody has heard: what was granted, and what was charged."""
        told_in, last, alloc = self._last.get((want.limiter, want.life), (0, want, None))
        if alloc is None or told_in != epoch or last.chain != want.chain or alloc.id in self._heard:
            return 0, 0
        if alloc.granted and self._under_way.pop(alloc.id, None) is None:
            # It was given up too soon.
            self._burnt(-alloc.granted, want.chain)
        return alloc.granted, last.repaid

    def _alone_of(self, door: Door, link: BucketLink) -> Alone:
        return self._alone.setdefault((door.life, link.rule, link.owner), Alone())

    def _rate_alone(self, link: BucketLink, version: int) -> float:
        """What one process's part is, in tokens a second."""
        book = self._books[version]
        (rule,) = (rule for rule in book.rules if rule.id == link.rule)
        return 0.0 if rule.on_loss is OnLoss.CLOSED else rule.alone() / book.nodes
