"""A server that was replaced confirms nothing, however the connection to it was used meanwhile."""

from __future__ import annotations

from typing import Any

import pytest
from redis.connection import ConnectionPool

from engine.bus.config import BusConfig
from engine.bus.transport import Outcome, Outgoing, Status, Transport
from engine.bus.transports.redis_stream import open_transport
from engine.core.clock import ManualClock
from engine.core.errors import Unavailable
from engine.core.leases import Lease
from engine.core.store import open_client
from engine.core.store.address import Place
from engine.core.store.failures import AnswerLost, NotSent
from engine.core.store.fence import VOUCHED_S, Fence, Replaced
from engine.core.store.link import Link
from engine.core.store.watchers import ASK_TIMEOUT_S, SentinelWatchers, said_by_sentinels
from tests.store_servers import SentinelTrio, Server, until

ONE: Place = ("10.0.0.1", 6379)
TWO: Place = ("10.0.0.2", 6379)


class Told:
    """Watchers who say what they were told to."""

    def __init__(self) -> None:
        self.said = ""
        self.lives = True
        self.questions = 0

    def alive(self, place: Place) -> bool:
        self.questions += 1
        return self.lives

    def objection(self, place: Place) -> str:
        return self.said

    def close(self) -> None: ...


def test_a_word_for_a_server_holds_for_half_a_second() -> None:
    clock, told = ManualClock(), Told()
    fence = Fence(told, clock)
    for _ in range(10):
        clock.advance(VOUCHED_S / 20)
        fence.check(ONE)
    assert told.questions == 1

    # A server that stood still for longer than that is asked about with its first answer.
    told.said = "another is the primary"
    clock.advance(VOUCHED_S)
    with pytest.raises(Replaced, match="another is the primary"):
        fence.check(ONE)
    # And with each further one: an objection vouches for nothing.
    clock.advance(0.001)
    with pytest.raises(Replaced):
        fence.check(ONE)
    # What is known of one server says nothing of another.
    told.said = ""
    fence.check(TWO)
    clock.advance(0.001)
    fence.check(ONE)
    assert told.questions == 5


def test_a_server_that_stands_still_again_vouches_for_nothing() -> None:
    told = Told()
    told.lives = False
    with pytest.raises(Replaced, match=r"10\.0\.0\.1:6379 stopped answering"):
        Fence(told, ManualClock()).check(ONE)


def sentinel(place: Place = ONE, flags: str = "master", epoch: int = 3, others: int = 0) -> list[Any]:
    """An answer to SENTINEL MASTERS in which another primary comes first."""
    words = {"name": "bus", "ip": place[0], "port": place[1], "flags": flags, "config-epoch": epoch, "quorum": 2}
    words["num-other-sentinels"] = others
    return [[b"name", b"other"], [str(word).encode() for pair in words.items() for word in pair]]


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ([sentinel(), sentinel(), sentinel()], ""),
        ([], ""),
        ([ValueError("NOPERM"), [[b"name", b"other"]]], ""),
        # The later epoch is right, whoever asks most.
        ([sentinel(), sentinel(), sentinel(TWO, epoch=4)], "replaced 10.0.0.1:6379 by 10.0.0.2:6379"),
        ([sentinel(epoch=4), sentinel(TWO), sentinel(TWO)], ""),
        # One may know it by a name.
        ([sentinel(("redis-1", 6379)), sentinel(), sentinel(("redis-1", 6379))], ""),
        ([sentinel(), sentinel(), sentinel(flags="master,failover_in_progress")], "are replacing"),
        ([sentinel(), sentinel(flags="s_down,o_down,master")], "are replacing"),
        ([sentinel(), sentinel(flags="s_down,master"), sentinel(flags="s_down,master")], "take 10.0.0.1:6379 for dead"),
        # One alone may be wrong.
        ([sentinel(), sentinel(), sentinel(flags="s_down,master")], ""),
        # Those that are silent may have replaced it, where they are enough to elect another.
        ([sentinel(others=2)], "only 1 of 3 Sentinels answered"),
        ([sentinel(others=2), sentinel(others=2)], ""),
        ([sentinel(others=4), sentinel(others=4)], "only 2 of 5 Sentinels answered"),
        ([sentinel(others=3), sentinel(others=3)], ""),
        ([sentinel(others=1)], ""),
        # One that has forgotten the others counts as one.
        ([sentinel(others=4), sentinel(others=0)], "only 2 of 5 Sentinels answered"),
    ],
)
def test_what_sentinels_have_against_a_server(answers: list[Any], said: str) -> None:
    found = said_by_sentinels("bus", ONE, answers)
    assert said in found
    assert bool(said) is bool(found)


def test_a_connection_that_was_idle_while_its_primary_was_replaced(own_trio: SentinelTrio) -> None:
    # Given a publisher, a client and a lease that have connections to the primary
    transport = open_transport(BusConfig(url=own_trio.url))
    transport.admin.create_topic("booking.created")
    link = Link.open(own_trio.url)
    client = open_client(own_trio.url)
    lease = Lease(client, "hbus", "duty", owner="one", ttl_s=60)
    frozen, *others = own_trio.servers
    assert transport.publish("booking.created", [Outgoing("a", b"a")])[0].status is Status.OK
    link.command("SET", "kept", "before")
    assert lease.acquire()
    until("the replicas have it", lambda: all(each.client.get("kept") == b"before" for each in others))

    # When it stands still, is replaced, and runs on
    frozen.freeze()
    until("another is primary", lambda: bool(_primaries(others)))
    frozen.thaw()
    assert frozen.is_primary

    # Then nobody takes its word: not for a publish, a command or a lease
    (outcome,) = transport.publish("booking.created", [Outgoing("b", b"b")])
    assert outcome.status in (Status.UNKNOWN, Status.FAILED)
    with pytest.raises((AnswerLost, NotSent)):
        link.command("SET", "kept", "after")
    with pytest.raises(Unavailable):
        lease.renew()

    # And who tries again comes to the one that replaced it
    (successor,) = _primaries(others)

    def published() -> bool:
        return transport.publish("booking.created", [Outgoing("c", b"c")])[0].status is Status.OK

    until("publishing goes on", published)
    # The position counts there: it holds what was confirmed.
    assert [entry.body for entry in transport.admin.browse("booking.created").entries] == [b"a", b"c"]
    assert successor.client.get("kept") == b"before"
    for each in (transport, link, client):
        each.close()


@pytest.mark.parametrize("named", [(0, 1, 2), (0, 1), (0,)])
def test_a_minority_of_the_sentinels_vouches_for_nothing(own_trio: SentinelTrio, named: tuple[int, ...]) -> None:
    url = own_trio.naming(*named)

    def publish() -> Outcome:
        # A new client has no word of before.
        transport = open_transport(BusConfig(url=url))
        (outcome,) = transport.publish("booking.created", [Outgoing("a", b"a")])
        transport.close()
        return outcome

    transport = open_transport(BusConfig(url=url))
    transport.admin.create_topic("booking.created")

    # One of three that is away costs nothing, whether the address names it or not.
    own_trio.freeze_sentinels(2)
    assert publish().status is Status.OK

    # The two that are silent now could elect another primary.
    own_trio.freeze_sentinels(1)
    refused = publish()
    assert refused.status in (Status.UNKNOWN, Status.FAILED)
    assert "only 1 of 3 Sentinels answered" in refused.error
    link = Link.open(url)
    with pytest.raises((AnswerLost, NotSent), match="only 1 of 3 Sentinels answered"):
        link.command("SET", "kept", "in vain")
    until("who had a word of before has none", lambda: _publish(transport) is not Status.OK)

    # And one that is back is enough, with the first question.
    own_trio.thaw_sentinels(1)
    assert publish().status is Status.OK
    assert _publish(transport) is Status.OK
    link.command("SET", "kept", "again")
    link.close()
    transport.close()


def test_sentinels_that_restart_one_after_the_other_cost_nothing(own_trio: SentinelTrio) -> None:
    watchers = _watchers(own_trio)
    primary: Place = ("127.0.0.1", own_trio.primary.port)
    for number in range(3):
        own_trio.kill_sentinel(number)
        assert watchers.objection(primary) == ""
        own_trio.restart_sentinel(number)
    watchers.close()


def test_without_any_sentinel_the_servers_word_counts(own_trio: SentinelTrio) -> None:
    watchers = _watchers(own_trio)
    primary: Place = ("127.0.0.1", own_trio.primary.port)
    for number in range(3):
        own_trio.kill_sentinel(number)
    assert watchers.objection(primary) == ""
    watchers.close()


def _watchers(trio: SentinelTrio) -> SentinelWatchers:
    def pool(place: Place, password: str) -> ConnectionPool:
        patience = {"socket_timeout": ASK_TIMEOUT_S, "socket_connect_timeout": ASK_TIMEOUT_S}
        return ConnectionPool(host=place[0], port=place[1], password=password, protocol=2, **patience)

    places = [("127.0.0.1", port) for port in trio.sentinels]
    return SentinelWatchers(
        trio.name, places, lambda place: pool(place, trio.sentinel_password), lambda place: pool(place, trio.password)
    )


def _publish(transport: Transport) -> Status:
    return transport.publish("booking.created", [Outgoing("a", b"a")])[0].status


def _primaries(servers: list[Server]) -> list[Server]:
    return [each for each in servers if each.is_primary]
