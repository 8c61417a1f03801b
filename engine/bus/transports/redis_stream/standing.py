"""Whether a group is done with single messages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from engine.bus.optional import WhereItIs
from engine.bus.transports.redis_stream import browsing
from engine.bus.transports.redis_stream.inspection import GroupState, inspect, life_began_ms
from engine.bus.transports.redis_stream.positions import Place, of_entry, place
from engine.bus.transports.redis_stream.topic import GroupKeys, StoreTime
from engine.core.store.link import Link


def standings(
    link: Link, groups: Sequence[GroupKeys], group: str, time: StoreTime, positions: Sequence[str]
) -> list[WhereItIs]:
    """One for each position; a partition that is not there any more has lost what it had."""
    by_partition: dict[int, list[str]] = defaultdict(list)
    for position in positions:
        by_partition[place(position).partition].append(position)
    found: dict[str, WhereItIs] = {}
    for partition, own in by_partition.items():
        if partition >= len(groups):
            found |= dict.fromkeys(own, WhereItIs.FORGOTTEN)
            continue
        keys = groups[partition]
        # Where the group stands is asked first: what is handed out in between is open all the same.
        state = inspect(link, keys, group, time)
        if time.injected:
            # Its beginning was told by the server's clock, and positions by another.
            state = state._replace(incarnation="")
        # A partition's keys do not name it.
        leases = link.command("ZMSCORE", keys.leases, *(place(each)._replace(partition=0).text for each in own))
        for position, lease in zip(own, leases, strict=True):
            found[position] = _standing(link, keys, state, place(position), lease is not None)
    return [found[position] for position in positions]


def _standing(link: Link, keys: GroupKeys, state: GroupState, at: Place, held: bool) -> WhereItIs:
    began_ms = life_began_ms(state.incarnation)
    delivered = of_entry(state.streams[at.rank].last_delivered, at.rank)
    is_open = held or (at.ms, at.seq) > (delivered.ms, delivered.seq)
    # What is done with may have been trimmed; what is not, never is.
    if not is_open and at.ms >= began_ms:
        return WhereItIs.DONE
    if next(browsing.ids(link, keys.streams[at.rank], at.id, at.id), None) is not None:
        return WhereItIs.OPEN if is_open else WhereItIs.DONE
    return WhereItIs.LOST if at.ms >= began_ms else WhereItIs.FORGOTTEN
