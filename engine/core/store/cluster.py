"""The nodes of a cluster: which primary has which slot, and connections to each."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import redis
from redis.connection import ConnectionPool
from redis.exceptions import AskError, ClusterDownError, MovedError

from engine.core.clock import Clock, SystemClock
from engine.core.store.address import Place, StoreAddress
from engine.core.store.fence import Fence, fenced
from engine.core.store.slots import slot_of
from engine.core.store.watchers import ClusterWatchers

#: Seconds between two looks at the cluster while something is wrong with it.
LOOK_S = 0.2
#: Seconds that one node may take to say how the cluster stands.
ASK_TIMEOUT_S = 1.0
#: How many of the primaries that would vote for another are asked whether one was replaced, beside its replicas.
VOTERS = 2

MakePool = Callable[[Place, float], ConnectionPool]
#: First slot, last slot, primary.
Range = tuple[int, int, Place]


class Topology:
    """How the cluster stands, as last heard. Thread-safe; shared by all connections of a process to one cluster."""

    def __init__(self, seeds: Sequence[Place], make_pool: MakePool, clock: Clock) -> None:
        self._seeds = tuple(seeds)
        self._make_pool = make_pool
        self._clock = clock
        self._lock = threading.Lock()
        self._ranges: list[Range] = []
        #: Slots that a node said are elsewhere, since the last look.
        self._moved: dict[int, Place] = {}
        #: All nodes as last heard, replicas too: any of them can tell.
        self._known: list[Place] = []
        #: The replicas of each primary.
        self._replicas: dict[Place, tuple[Place, ...]] = {}
        self._doubted = True
        self._looked = float("-inf")
        self._pools: dict[Place, ConnectionPool] = {}

    def primary_of(self, slot: int) -> Place:
        """Raises ``redis.ConnectionError`` when no node has the slot, or none answers."""
        self._look_if_needed()
        if place := self._moved.get(slot):
            return place
        for first, last, place in self._ranges:
            if first <= slot <= last:
                return place
        self.doubt()
        raise redis.ConnectionError(f"no node of the cluster has slot {slot} now")

    def primaries(self) -> list[Place]:
        """Raises as :meth:`primary_of`."""
        self._look_if_needed()
        return sorted({place for _, _, place in self._ranges})

    def watchers_of(self, place: Place) -> list[Place]:
        """Who would know that ``place`` is no primary any more: its replicas, and some of the other primaries."""
        voters = [each for each in sorted(self._replicas) if each != place][:VOTERS]
        return [*self._replicas.get(place, ()), *voters]

    def moved(self, slot: int, place: Place) -> None:
        """A node said who has the slot now; the rest is asked for anew, in a while."""
        with self._lock:
            self._moved = {**self._moved, slot: place}
            if place not in self._known:
                self._known.insert(0, place)
            self._doubted = True

    def doubt(self, place: Place | None = None) -> None:
        """Something failed, perhaps at ``place``: look again before the next use."""
        with self._lock:
            self._doubted = True
            if place in self._known:
                # Whoever has just failed is asked last.
                self._known.remove(place)
                self._known.append(place)

    def _look_if_needed(self) -> None:
        if not self._doubted:
            return
        with self._lock:
            if not self._doubted or (self._ranges and self._clock.monotonic() - self._looked < LOOK_S):
                return
            self._look()

    def _look(self) -> None:
        error: Exception = redis.ConnectionError("no node of the cluster is known")
        for place in dict.fromkeys((*self._known, *self._seeds)):
            try:
                rows = self._ask(place)
            except (redis.RedisError, OSError) as failure:
                error = failure
                continue
            self._ranges = [(int(first), int(last), _place(nodes[0], place)) for first, last, *nodes in rows]
            self._replicas = {
                _place(primary, place): tuple(_place(node, place) for node in nodes) for _, _, primary, *nodes in rows
            }
            self._known = list(dict.fromkeys(_place(node, place) for row in rows for node in row[2:]))
            self._moved, self._doubted = {}, False
            self._looked = self._clock.monotonic()
            return
        self._looked = self._clock.monotonic()
        if isinstance(error, (redis.ResponseError, redis.AuthenticationError)):
            raise error
        raise redis.ConnectionError(f"no node of the cluster answers: {error}") from error

    def _ask(self, place: Place) -> list[Any]:
        pool = self._pools.get(place)
        if pool is None:
            pool = self._pools[place] = self._make_pool(place, ASK_TIMEOUT_S)
        connection = pool.get_connection()
        try:
            connection.send_command("CLUSTER", "SLOTS")  # type: ignore[no-untyped-call]
            rows: list[Any] = connection.read_response()
        except BaseException:
            connection.disconnect()  # type: ignore[no-untyped-call]
            raise
        finally:
            pool.release(connection)
        return rows


class ClusterNodes:
    """:class:`engine.core.store.nodes.StoreNodes` of a cluster."""

    def __init__(self, address: StoreAddress, make_pool: MakePool, answer_timeout_s: float) -> None:
        self._address = address
        self._make_pool = make_pool
        self._answer_timeout_s = answer_timeout_s
        self._topology = Topology(address.places, make_pool, SystemClock())
        self._fence = Fence(ClusterWatchers(self._topology.watchers_of, primaries_in, make_pool))
        self._pools: dict[Place, ConnectionPool] = {}
        self._lock = threading.Lock()

    @property
    def label(self) -> str:
        return str(self._address)

    @property
    def only(self) -> None:
        return None

    def pool_for(self, key: str | bytes) -> ConnectionPool:
        return self._pool(self._topology.primary_of(slot_of(key)))

    def asked(self, error: Exception) -> ConnectionPool | None:
        if isinstance(error, AskError) and not isinstance(error, MovedError):
            return self._pool((error.host, error.port))
        return None

    def heed(self, error: Exception, pool: ConnectionPool | None) -> bool:
        place = self._place_of(pool)
        if isinstance(error, MovedError):
            host = error.host or (place[0] if place else "")
            if host in ("", "?"):
                self._topology.doubt(place)
            else:
                self._topology.moved(error.slot_id, (host, error.port))
            return True
        if isinstance(error, (redis.ConnectionError, redis.TimeoutError, ClusterDownError, OSError)):
            self._topology.doubt(place)
        return False

    def primaries(self) -> list[ConnectionPool]:
        return [self._pool(place) for place in self._topology.primaries()]

    def seed(self) -> ConnectionPool:
        """Connections to the first node that the address names, whoever that is now."""
        return self._pool(self._address.places[0])

    def sibling(self, answer_timeout_s: float) -> ClusterNodes:
        made = ClusterNodes(self._address, self._make_pool, answer_timeout_s)
        made._topology, made._fence = self._topology, self._fence
        return made

    def close(self) -> None:
        for pool in list(self._pools.values()):
            pool.disconnect(inuse_connections=False)
        self._fence.close()

    def _pool(self, place: Place) -> ConnectionPool:
        try:
            return self._pools[place]
        except KeyError:
            with self._lock:
                made = fenced(self._make_pool(place, self._answer_timeout_s), self._fence)
                return self._pools.setdefault(place, made)

    def _place_of(self, pool: ConnectionPool | None) -> Place | None:
        return next((place for place, each in list(self._pools.items()) if each is pool), None)


def primaries_in(asked: Place, rows: Sequence[Any]) -> set[Place]:
    """Who has slots, for the node at ``asked`` that answered ``CLUSTER SLOTS`` with ``rows``."""
    return {_place(primary, asked) for _, _, primary, *_ in rows}


def _place(node: Sequence[Any], asked: Place) -> Place:
    """A node as another one names it; one that does not know its own name is the one that was asked."""
    host = node[0].decode() if isinstance(node[0], bytes) else str(node[0] or "")
    return (asked[0] if host in ("", "?") else host, int(node[1]))
