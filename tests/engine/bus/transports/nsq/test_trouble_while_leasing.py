"""The store beside nsqd fails between two steps of one receive: what the first leased is handed out all the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from engine.bus.transports.nsq.receiver import NsqReceiver
from engine.bus.transports.nsq.side_store import SideStore
from engine.bus.transports.nsq.sweeping import Sweeper
from engine.core.errors import Unavailable
from tests.engine.bus.transports.nsq.conftest import Bench, eventually, settle, take

RUN = SideStore.run


class Trouble:
    """Fails the scripts that are named, once each, before or after they have run."""

    def __init__(self) -> None:
        self.before: set[str] = set()
        self.after: set[str] = set()
        #: How many messages nsqd had sent, of each lease that was answered.
        self.leased: list[int] = []

    def run(self, store: SideStore, script: str, keys: Sequence[str], args: Sequence[Any], **more: Any) -> Any:
        if script in self.before:
            self.before.remove(script)
            raise Unavailable(f"{script} was not asked")
        reply = RUN(store, script, keys, args, **more)
        if script == "lease" and args[4]:
            self.leased.append(args[4])
            if script in self.after:
                self.after.remove(script)
                raise Unavailable(f"the answer to {script} was lost")
        return reply


@pytest.fixture
def trouble(monkeypatch: pytest.MonkeyPatch) -> Trouble:
    made = Trouble()

    def run(store: SideStore, *args: Any, **more: Any) -> Any:
        return made.run(store, *args, **more)

    monkeypatch.setattr(SideStore, "run", run)
    return made


def come(receiver: NsqReceiver, number: int) -> None:
    """Wait until so many have come from nsqd and wait for the next lease."""
    eventually(lambda: len(receiver._inflow) >= number)


def test_what_is_leased_beside_what_cannot_be_kept_is_handed_out(bench: Bench, trouble: Trouble) -> None:
    # Given a lease whose answer was lost, so that the message counts as held when it is asked about again
    receiver = bench.receiver(lease_ms=5_000)
    assert isinstance(receiver, NsqReceiver)
    trouble.after.add("lease")
    bench.publish(b"1")
    with pytest.raises(Unavailable, match="the answer to lease was lost"):
        take(receiver, 1)
    receiver._inflow.want(10)
    bench.publish(b"2")
    come(receiver, 2)

    # When it cannot be kept beside nsqd either
    trouble.before.add("park")
    (second,) = receiver.receive(10, 0.2)
    assert not trouble.before

    # Then what was leased with it is not lost, and it comes once its own lease has ended
    assert (second.body, second.attempt) == (b"2", 1)
    assert settle(receiver, [second]) == [True]
    (first,) = take(receiver, 1)
    assert (first.body, first.attempt) == (b"1", 2)
    assert settle(receiver, [first]) == [True]
    (connection,) = [link.connection for link in receiver._inflow._links.values() if link.connection]
    eventually(lambda: connection.in_flight == 0)


@pytest.mark.parametrize("step", ["sweep", "lease"])
def test_what_was_leased_before_the_trouble_is_handed_out(
    bench: Bench, trouble: Trouble, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Whoever does not wait asks again until nothing more comes, with what came already in hand."""
    receiver = bench.receiver()
    turn = Sweeper.turn

    def fail_then(sweeper: Sweeper, newest: Any) -> None:
        if not trouble.leased:
            turn(sweeper, newest)
        elif step == "sweep":
            raise Unavailable("sweep was not asked")
        else:
            trouble.before.add("lease")

    monkeypatch.setattr(Sweeper, "turn", fail_then)
    bench.publish(b"1")
    (only,) = receiver.receive(10, 0)
    assert only.body == b"1"
    with pytest.raises(Unavailable, match=f"{step} was not asked"):
        receiver.receive(10, 0)
