"""A server that was replaced confirms nothing, however the connection to it was used meanwhile."""

from __future__ import annotations

from typing import Any

import pytest

from engine.bus.config import BusConfig
from engine.bus.transport import Outgoing, Status
from engine.bus.transports.redis_stream import open_transport
from engine.core.clock import ManualClock
from engine.core.errors import Unavailable
from engine.core.leases import Lease
from engine.core.store import open_client
from engine.core.store.address import Place
from engine.core.store.failures import AnswerLost, NotSent
from engine.core.store.fence import VOUCHED_S, Fence, Replaced
from engine.core.store.link import Link
from engine.core.store.watchers import said_by_sentinels
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


def sentinel(place: Place = ONE, flags: str = "master", epoch: int = 3) -> list[Any]:
    """An answer to SENTINEL MASTERS in which another primary comes first."""
    words = {"name": "bus", "ip": place[0], "port": place[1], "flags": flags, "config-epoch": epoch, "quorum": 2}
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


def _primaries(servers: list[Server]) -> list[Server]:
    return [each for each in servers if each.is_primary]
