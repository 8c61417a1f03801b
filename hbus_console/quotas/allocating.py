"""What the control plane has for sale of a limiter's buckets, who claims how much of it, and who is at work."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from urllib.parse import unquote

from engine.core.errors import Unavailable
from engine.quota import Book
from engine.quota.planes.looking import SeenBucket, SeenClaim
from engine.quota.protocol import BucketLink
from engine.quota.seating import SeatRules
from engine.quota.seats import SeatLink
from engine.quota.uses import Key
from hbus_console.quotas import door
from hbus_console.quotas.services.rules import policy_of
from hbus_console.quotas.sight import sees
from hbus_console.wiring import quota

#: Claims of one bucket that a page lists.
MOST_LISTED = 20
#: Limiters among which those of a policy of seats are looked for.
MOST_LOOKED_THROUGH = 500


@dataclass(frozen=True)
class BucketNow:
    """One bucket, as far as whoever looks may see."""

    seen: SeenBucket
    claims: Sequence[SeenClaim]
    #: Claims that are not listed: beyond :data:`MOST_LISTED`, or of what lies outside of the scopes.
    more: int

    @property
    def policy(self) -> str:
        return policy_of(self.seen.link.rule)

    @property
    def owner(self) -> str:
        """The tenant whose bucket it is; empty where all share it."""
        return self.seen.link.owner

    @property
    def tokens(self) -> float:
        return max(0.0, self.seen.tokens)

    @property
    def repaying(self) -> float:
        """Tokens that nodes spent by themselves while they were cut off, and that come in first."""
        return max(0.0, -self.seen.tokens)

    @property
    def by_period(self) -> bool:
        return bool(self.seen.link.ends_ms)


def buckets(links: Sequence[BucketLink], scopes: tuple[str, ...]) -> list[BucketNow] | None:
    """How these stand at this moment; ``None`` while the control plane does not answer, or where there is none."""
    here = door.present()
    # Nobody waits for what has just not answered.
    if not door.kept() or not links or (here is not None and here.node.away_since is not None):
        return None
    try:
        found = quota.control_plane().look(links)
    except Unavailable:
        # It is what the page says in its place.
        return None
    return [_seen_by(bucket, scopes) for bucket in found]


@dataclass(frozen=True)
class SeatsNow:
    """Seats that one tenant has, or that all share, and who holds them now."""

    link: SeatLink
    by_node: Sequence[tuple[str, int]]

    @property
    def owner(self) -> str:
        return unquote(self.link.owner)

    @property
    def taken(self) -> int:
        return sum(count for _, count in self.by_node)


def at_work(book: Book, keys: Iterable[Key], policy: str) -> list[SeatsNow] | None:
    """Of a policy of seats: how many are taken, of tenants among ``keys``; ``None`` while the store does not answer."""
    if not door.kept():
        return None
    rules, found = SeatRules(lambda: book), dict[str, SeatLink]()
    for key in islice(keys, MOST_LOOKED_THROUGH):
        for link in rules.links(*key):
            if policy_of(unquote(link.rule)) == policy:
                found.setdefault(link.bucket, link)
    try:
        plane = quota.seat_plane()
        seats = [
            SeatsNow(link, sorted(plane.seen(link).items(), key=lambda each: (-each[1], each[0])))
            for link in islice(found.values(), MOST_LISTED)
        ]
    except Unavailable:
        # It is what the page says in its place.
        return None
    return sorted(seats, key=lambda each: (-each.taken, each.owner))


def _seen_by(bucket: SeenBucket, scopes: tuple[str, ...]) -> BucketNow:
    visible = [claim for claim in bucket.claims if sees(scopes, claim.key[0], claim.key[1])]
    listed = visible[:MOST_LISTED]
    return BucketNow(bucket, listed, bucket.more + len(bucket.claims) - len(listed))
