"""Who decides which server is the primary, asked about one of them: the Sentinels, or the other nodes of a cluster.

Sentinels that are silent may be replacing the primary on their side of a cut. So where some answer, they vouch only
while those that do not are too few to elect another. Where none answers, the store goes on as it did before they went:
all of them may just as well be down, and then nobody replaces anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import redis
from redis.connection import ConnectionPool

from engine.core.clock import Clock, SystemClock
from engine.core.numbers import whole
from engine.core.store.address import Place

#: Seconds that a watcher may take to answer.
ASK_TIMEOUT_S = 0.25
#: Seconds that a server may take to show that it lives: it may be at work on something long.
ALIVE_TIMEOUT_S = 2.0
#: Seconds for which a watcher that did not answer is left alone.
REST_S = 5.0

#: Connections to a place, for questions.
AskingPool = Callable[[Place], ConnectionPool]
Sentinel = Mapping[str, str]


class Questions:
    """Asks several servers one thing at once, and leaves alone for a while who did not answer. Thread-safe."""

    def __init__(self, make_pool: AskingPool, clock: Clock | None = None) -> None:
        self._make_pool = make_pool
        self._clock = clock or SystemClock()
        self._pools: dict[Place, ConnectionPool] = {}
        self._silent: dict[Place, float] = {}

    def ask(self, places: Iterable[Place], *command: str) -> dict[Place, Any]:
        """The answers of those who gave one in time; the error of one that refused."""
        places = tuple(places)
        now = self._clock.monotonic()
        # Nobody is left alone where nobody else is there to ask.
        awake = [place for place in places if now >= self._silent.get(place, now)] or places
        asked = {place: connection for place in awake if (connection := self._send(place, command))}
        answers: dict[Place, Any] = {}
        for place, connection in asked.items():
            try:
                answers[place] = connection.read_response()
            except redis.ResponseError as error:
                answers[place] = error
            except (redis.RedisError, OSError):
                connection.disconnect()
            finally:
                self._pools[place].release(connection)
        for place in awake:
            self._silent.pop(place, None)
            if place not in answers:
                self._silent[place] = now + REST_S
        return answers

    def close(self) -> None:
        """Close the connections. Idempotent; a later question opens new ones."""
        for pool in list(self._pools.values()):
            pool.disconnect(inuse_connections=False)

    def _send(self, place: Place, command: tuple[str, ...]) -> Any:
        pool = self._pools.get(place)
        if pool is None:
            pool = self._pools.setdefault(place, self._make_pool(place))
        try:
            connection = pool.get_connection()
        except (redis.RedisError, OSError):
            return None
        try:
            connection.send_command(*command)  # type: ignore[no-untyped-call]
        except (redis.RedisError, OSError):
            connection.disconnect()  # type: ignore[no-untyped-call]
            pool.release(connection)
            return None
        return connection


class SentinelWatchers:
    """:class:`~engine.core.store.fence.Watchers` of a primary that Sentinels watch."""

    def __init__(
        self, name: str, sentinels: Iterable[Place], make_sentinel_pool: AskingPool, make_server_pool: AskingPool
    ) -> None:
        self._name = name
        self._sentinels = tuple(sentinels)
        self._questions = Questions(make_sentinel_pool)
        self._servers = Questions(make_server_pool)

    def alive(self, place: Place) -> bool:
        return place in self._servers.ask((place,), "PING")

    def objection(self, place: Place) -> str:
        answers = self._ask(self._sentinels)
        if answers and self._missing(answers):
            # One that was left alone may be back, and one that was slow is given as long again.
            answers |= self._ask(each for each in self._sentinels if each not in answers)
        if answers and self._missing(answers):
            answers = max(answers, self._ask_the_others(answers), key=len)
        return said_by_sentinels(self._name, place, answers.values())

    def _ask(self, places: Iterable[Place]) -> dict[Place, Any]:
        # What redis-py asks too, so that a Sentinel's user needs no other permission.
        answers = self._questions.ask(places, "SENTINEL", "MASTERS")
        return {place: answer for place, answer in answers.items() if _of(self._name, answer)}

    def _ask_the_others(self, answers: dict[Place, Any]) -> dict[Place, Any]:
        """The answers of one of those who answered and of all whom it knows: an address need not name every Sentinel.

        By its names alone, because the address may call the same Sentinel by another.
        """
        one = next(iter(answers))
        rows = self._questions.ask((one,), "SENTINEL", "SENTINELS", self._name).get(one)
        others = [(each.get("ip", ""), _number(each, "port")) for each in _entries(rows)]
        return {one: answers[one], **self._ask(others)}

    def _missing(self, answers: dict[Place, Any]) -> str:
        return too_few([found for answer in answers.values() if (found := _of(self._name, answer))])

    def close(self) -> None:
        self._questions.close()
        self._servers.close()


def said_by_sentinels(name: str, place: Place, answers: Iterable[Any]) -> str:
    """What the answers to ``SENTINEL MASTERS`` have against ``place`` as the primary called ``name``; empty: nothing.

    One Sentinel that alone takes a primary for dead is no objection: it takes as many as the Sentinels' own quorum. A
    failover that one of them has begun is, and so is the silence of as many as it takes to elect another.
    """
    known = [found for answer in answers if (found := _of(name, answer))]
    if not known:
        return ""
    # Who has not heard of the last failover yet has the lower epoch.
    epoch = max(_number(each, "config-epoch") for each in known)
    newest = [each for each in known if _number(each, "config-epoch") == epoch]
    # One may know it by its address, another by its name.
    named = [(each.get("ip", ""), _number(each, "port")) for each in newest]
    where = f"{place[0]}:{place[1]}"
    if place not in named:
        return f"the Sentinels have replaced {where} by {named[0][0]}:{named[0][1]}"
    flags = [each.get("flags", "").split(",") for each in known]
    if any("o_down" in each or "failover_in_progress" in each for each in flags):
        return f"the Sentinels are replacing {where}"
    if sum("s_down" in each for each in flags) >= max(1, _number(newest[0], "quorum")):
        return f"the Sentinels take {where} for dead"
    return too_few(known)


def too_few(known: Sequence[Sentinel]) -> str:
    """Why the Sentinels that said ``known`` cannot vouch for what they say; empty when they can.

    It takes a majority of all Sentinels to elect a primary, those included that are away; they tell how many there are.
    """
    there_are = max(_number(each, "num-other-sentinels") for each in known) + 1
    if there_are - len(known) >= there_are // 2 + 1:
        return f"only {len(known)} of {there_are} Sentinels answered: the others may have chosen another primary"
    return ""


def _of(name: str, answer: Any) -> Sentinel | None:
    return next((found for found in _entries(answer) if found.get("name") == name), None)


def _entries(answer: Any) -> list[Sentinel]:
    if not isinstance(answer, list):
        return []
    flat = ([_text(word) for word in words] for words in answer)
    return [dict(zip(words[::2], words[1::2], strict=False)) for words in flat]


def _number(said: Sentinel, word: str) -> int:
    return whole(said.get(word, "")) or 0


def _text(word: Any) -> str:
    return word.decode(errors="replace") if isinstance(word, bytes) else str(word)


class ClusterWatchers:
    """:class:`~engine.core.store.fence.Watchers` of a primary in a cluster.

    ``others`` names those who would take its place, and some who would vote; ``primaries`` reads who is one from an
    answer to ``CLUSTER SLOTS`` of the node at a place.
    """

    def __init__(
        self,
        others: Callable[[Place], Iterable[Place]],
        primaries: Callable[[Place, Any], set[Place]],
        make_pool: Callable[[Place, float], ConnectionPool],
    ) -> None:
        self._others = others
        self._primaries = primaries
        self._questions = Questions(lambda place: make_pool(place, ASK_TIMEOUT_S))
        self._servers = Questions(lambda place: make_pool(place, ALIVE_TIMEOUT_S))

    def alive(self, place: Place) -> bool:
        return place in self._servers.ask((place,), "PING")

    def objection(self, place: Place) -> str:
        answers = self._questions.ask(self._others(place), "CLUSTER", "SLOTS")
        for asked, answer in answers.items():
            if isinstance(answer, list) and place not in self._primaries(asked, answer):
                return f"the cluster has replaced {place[0]}:{place[1]}"
        return ""

    def close(self) -> None:
        self._questions.close()
        self._servers.close()
