"""What the control plane has for sale of a limiter's buckets, and who claims how much of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from django.conf import settings

from engine.core.errors import Unavailable
from engine.quota.planes.looking import SeenBucket, SeenClaim
from engine.quota.protocol import BucketLink
from hbus_console.quotas import door
from hbus_console.quotas.sight import sees
from hbus_console.quotas.standing import TRIED
from hbus_console.wiring import quota

#: Claims of one bucket that a page lists.
MOST_LISTED = 20


@dataclass(frozen=True)
class BucketNow:
    """One bucket, as far as whoever looks may see."""

    seen: SeenBucket
    claims: Sequence[SeenClaim]
    #: Claims that are not listed: beyond :data:`MOST_LISTED`, or of what lies outside of the scopes.
    more: int

    @property
    def policy(self) -> str:
        return self.seen.link.rule.removesuffix(TRIED)

    @property
    def owner(self) -> str:
        """The tenant whose bucket it is; empty where all share it."""
        return unquote(self.seen.link.owner)

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
    if not settings.HBUS_QUOTAS or not links or (here is not None and here.node.away_since is not None):
        return None
    try:
        found = quota.control_plane().look(links)
    except Unavailable:
        # It is what the page says in its place.
        return None
    return [_seen_by(bucket, scopes) for bucket in found]


def _seen_by(bucket: SeenBucket, scopes: tuple[str, ...]) -> BucketNow:
    visible = [claim for claim in bucket.claims if sees(scopes, claim.key[0], claim.key[1])]
    listed = visible[:MOST_LISTED]
    return BucketNow(bucket, listed, bucket.more + len(bucket.claims) - len(listed))
