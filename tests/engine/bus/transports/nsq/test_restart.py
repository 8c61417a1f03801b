"""nsqd or the store beside it goes away under consumers and publishers: they see it, heal, and lose nothing."""

from __future__ import annotations

import contextlib
import shutil
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from engine.bus.config import BusConfig
from engine.bus.errors import GroupLost
from engine.bus.registry import open_transport
from engine.bus.transport import Outgoing, Status, Verdict
from engine.bus.transports.nsq import http, publishing
from engine.bus.transports.nsq import inflow as inflow_module
from engine.core.errors import ConfigurationError, Unavailable
from hbus_console.supervisor.standalone import StandaloneStore
from hbus_console.supervisor.standalone_nsqd import StandaloneLookupd, StandaloneNsqd
from tests.engine.bus.transports.nsq.conftest import GROUP, TOPIC, Bench, eventually, noted, settle, take
from tests.engine.bus.transports.nsq.raw import channel, post
from tests.nsq import needs_nsqd


def test_a_consumer_sees_that_nsqd_is_away_and_goes_on_when_it_is_back(
    own_bench: Bench, own_nsqd: StandaloneNsqd
) -> None:
    receiver = own_bench.receiver()
    assert receiver.receive(1, 0) == []

    own_nsqd.kill()

    said: list[str] = []

    def away() -> bool:
        try:
            receiver.receive(1, 0.2)
        except Unavailable as error:
            said.append(str(error))
        return bool(said)

    eventually(away)
    assert str(own_nsqd.http_port) in said[0]
    (outcome,) = own_bench.try_to_publish(b"x")
    assert outcome.status is Status.FAILED
    assert "cannot be reached" in outcome.error

    own_nsqd.start()
    own_bench.publish(b"after")
    found: list[bytes] = []
    asked = 0

    def came() -> bool:
        nonlocal asked
        asked += 1
        with contextlib.suppress(Unavailable):
            found.extend(each.body for each in receiver.receive(1, 0.2))
        return bool(found)

    eventually(came)
    assert found == [b"after"]
    # An answer takes a tenth of a second or more: pynsq, which tries again after 15 s, would be asked more often
    assert asked < 75


def test_killed_in_the_middle_nothing_is_lost_and_nothing_settled_comes_again(
    own_bench: Bench, own_nsqd: StandaloneNsqd
) -> None:
    total, published, stop = 600, 0, threading.Event()
    handled: Counter[bytes] = Counter()
    started_ns = 0

    def noted() -> bool:
        """Whether nsqd has synced both its files, the topic's and the channel's, since it was started."""
        notes = list(own_nsqd.folder.glob("*.diskqueue.meta.dat"))
        return len(notes) == 2 and all(each.stat().st_mtime_ns > started_ns for each in notes)

    def consume() -> None:
        receiver = own_bench.receiver("worker")
        while not stop.is_set():
            try:
                batch = receiver.receive(40, 0.2)
                time.sleep(0.005)
                settled = settle(receiver, batch)
            except (Unavailable, GroupLost):
                time.sleep(0.05)
                continue
            handled.update(each.body for each, ours in zip(batch, settled, strict=True) if ours)

    thread = threading.Thread(target=consume)
    thread.start()
    try:
        for start in range(0, total, 20):
            if start in (200, 400):
                own_nsqd.kill()
                started_ns = time.time_ns()
                own_nsqd.start()
            while True:
                # As the outbox does: again with the same keys until it is known to be stored
                batch = [
                    Outgoing(
                        f"m{index}", b"m%d" % index,
                        idempotency_key=f"m{index}", idempotency_digest="d", idempotency_window_ms=60_000,
                    )
                    for index in range(start, start + 20)
                ]  # fmt: skip
                statuses = {each.status for each in own_bench.transport.publish(TOPIC, batch)}
                if statuses <= {Status.OK, Status.DUPLICATE}:
                    break
            published += 20
            if start in (0, 200):
                # What nsqd takes before its first sync it does not find again, or writes over: see docs/transports.md
                eventually(noted)
        eventually(lambda: len(handled) == total)
        eventually(lambda: own_bench.admin.lag(TOPIC, GROUP).unsettled == 0)
    finally:
        stop.set()
        thread.join()

    print(f"published {published}, handled {handled.total()}, twice {handled.total() - len(handled)}")
    assert handled == Counter(b"m%d" % index for index in range(total))


def test_what_an_nsqd_that_is_gone_had_sent_and_nobody_had_is_kept(
    without_copies: Bench, own_nsqd: StandaloneNsqd, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Else what was read ahead goes back while this test waits
    monkeypatch.setattr(inflow_module, "IDLE_S", 3_600)
    bench = without_copies
    one = bench.receiver("one")
    assert one.receive(100, 0) == []
    bench.publish(*[b"m%d" % index for index in range(50)])
    inflow = one._inflow  # type: ignore[attr-defined]
    eventually(lambda: len(inflow) == 50)
    eventually(lambda: noted(own_nsqd))

    # In flight means in nsqd's memory only; a kill forgets them, and a consumer that closes would as well
    own_nsqd.kill()
    eventually(lambda: not inflow.connected)
    one.close()
    own_nsqd.start()

    two = bench.receiver("two")
    found: set[bytes] = set()

    def all_found() -> bool:
        with contextlib.suppress(Unavailable):
            batch = two.receive(50, 0.2)
            settle(two, batch)
            found.update(each.body for each in batch)
        return len(found) == 50

    eventually(all_found)
    assert found == {b"m%d" % index for index in range(50)}


def test_retries_are_handed_out_while_nsqd_is_away(own_bench: Bench, own_nsqd: StandaloneNsqd) -> None:
    own_bench.publish(b"x")
    receiver = own_bench.receiver()
    settle(receiver, take(receiver, 1), Verdict.RETRY)
    own_nsqd.kill()
    (again,) = take(receiver, 1)
    assert again.attempt == 2
    assert settle(receiver, [again]) == [True]


def test_an_answer_that_does_not_come_is_unknown_and_not_failed(
    own_bench: Bench, own_nsqd: StandaloneNsqd, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To pynsq a publish is done when it is written to the socket."""
    monkeypatch.setattr(http, "ANSWER_TIMEOUT_S", 0.5)
    own_bench.publish(b"warm")
    own_bench.transport._nodes.close()
    own_nsqd.freeze()
    try:
        own_bench.transport._nodes.all()[0].prepared[own_bench.nsq_topic] = own_bench.transport._nodes.all()[
            0
        ].http.losses
        outcomes = own_bench.try_to_publish(b"x", b"y")
    finally:
        own_nsqd.thaw()
    assert [each.status for each in outcomes] == [Status.UNKNOWN, Status.UNKNOWN]
    assert all(each.error for each in outcomes)


def test_channels_are_there_before_anything_is_published_also_on_an_nsqd_that_lost_its_data(
    own_bench: Bench, own_nsqd: StandaloneNsqd
) -> None:
    own_bench.publish(b"first")
    receiver = own_bench.receiver()
    settle(receiver, take(receiver, 1))
    receiver.close()
    own_nsqd.stop()
    shutil.rmtree(own_nsqd.folder)
    own_nsqd.folder.mkdir()
    own_nsqd.start()

    with pytest.raises(GroupLost, match="no channel"):
        own_bench.admin.checkpoint(TOPIC, GROUP)
    own_bench.publish(b"second")

    assert channel(own_nsqd.url, own_bench.nsq_topic, GROUP)["depth"] == 1
    assert [each.body for each in take(own_bench.receiver(), 1)] == [b"second"]


def test_a_channel_deleted_by_hand_is_reported_and_made_anew(own_bench: Bench, own_nsqd: StandaloneNsqd) -> None:
    receiver = own_bench.receiver()
    assert receiver.receive(1, 0) == []
    post(f"{own_nsqd.url}/channel/delete?topic={own_bench.nsq_topic}&channel={GROUP}")

    said: list[str] = []

    def lost() -> bool:
        try:
            # nsqd cuts the connection with the channel: until the next one stands, a turn may find none
            with contextlib.suppress(Unavailable):
                receiver.receive(1, 0.2)
        except GroupLost as error:
            said.append(str(error))
        return bool(said)

    eventually(lost)
    assert GROUP in said[0]
    own_bench.admin.create_group(TOPIC, GROUP)
    own_bench.publish(b"x")
    assert [each.body for each in take(receiver, 1)] == [b"x"]


def test_a_lease_beyond_what_nsqd_allows_is_kept_beside_it(tmp_path: Path, redis_url: str, prefix: str) -> None:
    """TOUCH reaches no further than --max-msg-timeout: then nsqd sends it to another, whatever we do."""
    needs_nsqd()
    server = StandaloneNsqd(tmp_path / "strict", options=("-max-msg-timeout=2s",)).start()
    bench = Bench(redis_url, server.url, prefix)
    try:
        bench.publish(b"x")
        # nsqd waits for half a second longer than the lease, and 2 s at most
        one, two = bench.receiver("one", 1_500), bench.receiver("two", 1_500)
        (delivery,) = take(one, 1)
        until = time.monotonic() + 8
        while time.monotonic() < until:
            assert one.extend([delivery.receipt]) == [True]
            assert two.receive(1, 0.2) == []
        assert settle(one, [delivery]) == [True]
        assert two.receive(1, 1.5) == []
        assert bench.admin.lag(TOPIC, GROUP).unsettled == 0
    finally:
        bench.close()
        server.kill()


def test_the_store_beside_away_is_said_and_survived(own_store: StandaloneStore, nsqd_url: str, prefix: str) -> None:
    bench = Bench(own_store.url, nsqd_url, prefix)
    try:
        receiver = bench.receiver()
        bench.publish(b"x")
        delivery = take(receiver, 1)
        own_store.kill()

        with pytest.raises(Unavailable, match="beside NSQ"):
            settle(receiver, delivery)
        with pytest.raises(Unavailable):
            receiver.receive(1, 0)
        keyed = Outgoing("id", b"y", idempotency_key="k", idempotency_digest="d", idempotency_window_ms=1_000)
        assert bench.transport.publish(TOPIC, [keyed])[0].status is Status.FAILED

        own_store.start()
        # The same batch again: what was not done before is done now, once
        assert settle(receiver, delivery) in ([True], [False])
        bench.publish(b"z")
        assert b"z" in {each.body for each in take(receiver, 1)}
    finally:
        bench.close()


def test_a_publisher_that_died_between_reserving_and_confirming_blocks_its_key_only_for_a_while(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publishing, "RESERVED_MS", 400)
    keyed = Outgoing("id", b"x", idempotency_key="k", idempotency_digest="d", idempotency_window_ms=60_000)
    names = bench.transport._topic(TOPIC)
    bench.transport._side_store.run("reserve", [names.idempotency("k")], ("another", 400, "d", "id"))

    started = time.monotonic()
    assert bench.transport.publish(TOPIC, [keyed])[0].status is Status.OK
    assert time.monotonic() - started > 0.3
    assert bench.transport.publish(TOPIC, [keyed])[0].status is Status.DUPLICATE


def test_a_claimed_key_is_claimed_still_when_its_message_could_not_be_sent(
    own_bench: Bench, own_nsqd: StandaloneNsqd
) -> None:
    keyed = Outgoing("id", b"x", idempotency_key="k", idempotency_digest="d", idempotency_window_ms=60_000)
    waiting = msgspec.structs.replace(keyed, body=b"", due_ms=1)
    assert own_bench.transport.claim(TOPIC, [waiting])[0].status is Status.OK
    own_nsqd.kill()

    assert own_bench.transport.publish(TOPIC, [keyed])[0].status is Status.FAILED

    own_nsqd.start()
    another = msgspec.structs.replace(keyed, message_id="another")
    held = own_bench.transport.publish(TOPIC, [another])[0]
    assert (held.status, held.message_id, held.due_ms) == (Status.HELD, "id", 1)
    assert own_bench.transport.publish(TOPIC, [keyed])[0].status is Status.OK
    assert own_bench.transport.publish(TOPIC, [another])[0].status is Status.DUPLICATE


def test_a_claimed_key_is_claimed_again_when_nobody_says_what_became_of_its_message(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publishing, "RESERVED_MS", 400)
    keyed = Outgoing("id", b"x", idempotency_key="k", idempotency_digest="d", idempotency_window_ms=60_000)
    another = msgspec.structs.replace(keyed, message_id="another")
    assert bench.transport.claim(TOPIC, [msgspec.structs.replace(keyed, body=b"", due_ms=1)])[0].status is Status.OK
    key = bench.transport._topic(TOPIC).idempotency("k")
    for token in ("first", "second"):
        assert bench.transport._side_store.run("reserve", [key], (token, 400, "d", "id")) == [0]

        ask = bench.transport.publish if token == "first" else bench.transport.claim
        started = time.monotonic()
        held = ask(TOPIC, [another])[0]

        assert time.monotonic() - started > 0.3
        assert (held.status, held.message_id, held.due_ms) == (Status.HELD, "id", 1)
    left_ms = bench.transport._side_store.command("PTTL", key)
    assert 0 < left_ms <= 60_000
    assert bench.transport.publish(TOPIC, [keyed])[0].status is Status.OK
    assert bench.transport.publish(TOPIC, [another])[0].status is Status.DUPLICATE


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[StandaloneLookupd, StandaloneNsqd, StandaloneNsqd]]:
    needs_nsqd()
    lookupd = StandaloneLookupd().start()
    both = [
        StandaloneNsqd(tmp_path / f"nsqd-{number}", lookupd=lookupd.tcp_address, node_id=number).start()
        for number in (1, 2)
    ]
    yield lookupd, both[0], both[1]
    for each in (*both, lookupd):
        each.kill()


def test_nsqlookupd_tells_which_nsqds_there_are_and_one_of_them_may_die(
    pair: tuple[StandaloneLookupd, StandaloneNsqd, StandaloneNsqd], redis_url: str, prefix: str
) -> None:
    lookupd, first, second = pair
    config = BusConfig(type="nsq", url=redis_url, prefix=prefix, options={"nsqlookupd": lookupd.url})
    transport = open_transport(config)
    try:
        eventually(lambda: len(transport._nodes.all()) == 2)  # type: ignore[attr-defined]
        transport.admin.create_topic(TOPIC)
        transport.admin.create_group(TOPIC, GROUP)
        receiver = transport.receiver(TOPIC, GROUP, consumer="one", lease_ms=30_000)

        # Both are published to, both are read
        for index in range(10):
            assert transport.publish(TOPIC, [Outgoing(f"a{index}", b"a%d" % index)])[0].status is Status.OK
        nsq_topic = f"{prefix}.{TOPIC}"
        assert channel(first.url, nsq_topic, GROUP)["message_count"] == 5
        assert channel(second.url, nsq_topic, GROUP)["message_count"] == 5
        assert settle(receiver, take(receiver, 10)) == [True] * 10

        # One dies: nothing stops
        first.kill()
        for index in range(10):
            assert transport.publish(TOPIC, [Outgoing(f"b{index}", b"b%d" % index)])[0].status is Status.OK
        assert settle(receiver, take(receiver, 10)) == [True] * 10
        assert transport.ping() < 5
        receiver.close()
    finally:
        transport.close()


def test_a_transport_without_an_nsqd_says_what_to_set() -> None:
    with pytest.raises(ConfigurationError, match="NSQD_URL") as refused:
        open_transport(BusConfig(type="nsq", url="redis://127.0.0.1:1"))
    assert refused.value.field == "NSQD_URL"
    with pytest.raises(ConfigurationError, match="no address"):
        open_transport(BusConfig(type="nsq", url="redis://127.0.0.1:1", options={"nsqd": "https://x"}))
