"""One consumer's end of a group: what is due beside nsqd and what nsqd sends, leased in one call; and settling it."""

from __future__ import annotations

import logging
import secrets
import time
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from itertools import count
from typing import TypeVar

import msgspec

from engine.bus.errors import GroupLost
from engine.bus.transport import Attempt, Delivery, Settlement, Verdict
from engine.bus.transports.nsq.connection import Arrived, NsqdConnection
from engine.bus.transports.nsq.copies import Keep
from engine.bus.transports.nsq.inflow import Inflow
from engine.bus.transports.nsq.leases import DeliveryLease, DeliveryLeases, uncount
from engine.bus.transports.nsq.loop import EventLoopThread
from engine.bus.transports.nsq.names import GroupNames, digest_of, released_score
from engine.bus.transports.nsq.nodes import Node, Nodes
from engine.bus.transports.nsq.side_store import SideStore, group_lost
from engine.bus.transports.nsq.sweeping import Sweeper
from engine.core.errors import Unavailable
from engine.core.prepared import prepared
from engine.core.store.failures import AnswerLost

#: The most messages one call leases: the store does nothing else meanwhile.
LIMIT = 500
#: Who asks for so many at once has fast handlers: as many again may come meanwhile.
READ_AHEAD_FROM = 32
#: nsqd does not say that it has nothing; after so many seconds without a message it is taken to have none.
NOTHING_S = 0.1
#: Without a wait, more is waited for only so long after the last message that came.
MORE_S = 0.02
#: Seconds between two looks at what lies beside nsqd while waiting.
POLL_S = 0.2
#: How long a first connection may take before a wait of no length gives up.
CONNECT_S = 3.0
#: Notes about nsqd's worthless copies are kept for a day: an nsqd may be away for long.
STALE_MS = 86_400_000
#: Of how many settled messages a group knows that there may be a second copy. It comes soon after the first: an nsqd
#: that is killed has read no more than it notes with one sync (2,500 messages, unless it is told otherwise).
TWICE_MOST = 10_000

T = TypeVar("T")

_attempt_encoder = msgspec.json.Encoder()
_history_decoder = msgspec.json.Decoder(prepared(tuple[Attempt, ...]))
_log = logging.getLogger(__name__)


class NsqReceiver:
    """See :class:`engine.bus.transport.Receiver`."""

    def __init__(
        self,
        side_store: SideStore,
        loop: EventLoopThread,
        nodes: Nodes,
        names: GroupNames,
        leases: DeliveryLeases,
        *,
        consumer: str,
        lease_ms: int,
        keep: Keep,
    ) -> None:
        self._side_store = side_store
        self._keep = keep
        self._loop = loop
        self._names = names
        self._leases = leases
        self._consumer = consumer
        self._lease_ms = lease_ms
        self._tokens = (f"{secrets.token_hex(5)}.{number:x}" for number in count())
        self._closed = False
        self._missing = ""
        self._sweeper = Sweeper(side_store, nodes, names)
        #: Settled, and nsqd could not be told. Filled by the loop, emptied by the receiver's thread.
        self._untold: deque[str] = deque()
        self._inflow = Inflow(
            loop,
            nodes,
            names,
            consumer=consumer,
            lease_ms=lease_ms,
            leases=leases,
            on_gone=self._after_loss,
            on_missing=self._note_missing,
        )

    def receive(self, limit: int, wait_s: float) -> list[Delivery]:
        limit = min(limit, LIMIT)
        begun = time.monotonic()
        deadline, settled_down = begun + wait_s, begun + max(wait_s, NOTHING_S)
        found: list[Delivery] = []
        while not self._closed:
            before = len(found)
            try:
                self._look_around(found)
                due_s = self._lease(limit - before, found)
            except (GroupLost, Unavailable):
                # What came before is leased and must not get lost; the trouble is met again.
                if found:
                    break
                raise
            now = time.monotonic()
            if found and (wait_s > 0 or len(found) >= limit):
                break
            if len(found) > before:
                # Whoever does not wait asks for what there is: what is on its way belongs to it.
                settled_down = now + MORE_S
            elif found:
                pass
            elif self._inflow.trouble and not self._inflow.connected and now - begun >= NOTHING_S:
                raise Unavailable(
                    f"No nsqd can be reached: {self._inflow.trouble}.",
                    remedy="Make sure that it runs and that NSQD_URL names it.",
                )
            elif not self._inflow.connected and now - begun < CONNECT_S:
                settled_down = now + NOTHING_S
            left_s = max(deadline, settled_down) - now
            if left_s <= 0:
                break
            self._inflow.news.wait(min(left_s, POLL_S, due_s))
        self._inflow.want(limit if limit >= READ_AHEAD_FROM and not self._closed else 0)
        return found

    def settle(self, batch: Sequence[Settlement]) -> list[bool]:
        results = [True] * len(batch)
        if not batch:
            return results
        leases = self._leases.get([each.receipt for each in batch])
        acks: list[str] = []
        late: list[str] = []
        twice: list[str] = []
        others: list[str | int | bytes] = []
        ack_order: list[int] = []
        other_order: list[int] = []
        now = time.monotonic()
        for index, (each, lease) in enumerate(zip(batch, leases, strict=True)):
            message_id, _, token = each.receipt.partition("|")
            if each.verdict is Verdict.ACK:
                acks.append(message_id)
                ack_order.append(index)
                if lease is None or _may_come_again(lease, now):
                    late.append(message_id)
                elif lease.again or (lease.connection is not None and lease.connection.may_double(message_id)):
                    twice.append(message_id)
            else:
                attempt = _attempt_encoder.encode(each.attempt) if each.attempt else b""
                body = lease.body if lease else b""
                others += (each.verdict.value, message_id, token, max(0, each.after_ms), attempt, each.dead)
                others += (released_score(message_id), body)
                other_order.append(index)
        order = ack_order + other_order
        args = (len(acks), len(late), len(twice), TWICE_MOST, *acks, *late, *twice, *others)
        try:
            refused = self._side_store.run("settle", self._names.settle, args)
        except Unavailable as error:
            if isinstance(error.__cause__, AnswerLost):
                for lease in leases:
                    if lease is not None:
                        lease.unheard = True
            raise
        for ordinal in refused:
            results[order[ordinal - 1]] = False
        self._tell_nsqd(batch, results)
        return results

    def extend(self, receipts: Sequence[str]) -> list[bool]:
        results = [True] * len(receipts)
        if not receipts:
            return results
        args: list[str | int] = [self._lease_ms]
        for receipt in receipts:
            message_id, _, token = receipt.partition("|")
            args += (message_id, token)
        for ordinal in self._side_store.run("extend", self._names.extend, args):
            results[ordinal - 1] = False
        touched: defaultdict[NsqdConnection, list[str]] = defaultdict(list)
        until = time.monotonic() + self._lease_ms / 1000
        for lease, kept in zip(self._leases.get(receipts), results, strict=True):
            if lease is not None and kept and lease.connection is not None:
                lease.until = until
                touched[lease.connection].append(lease.id)
        self._each(touched, lambda connection, ids: connection.touch(ids))
        return results

    def take_vanished(self) -> list[str]:
        """See :class:`engine.bus.optional.TellsVanished`."""
        return self._sweeper.take_vanished()

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        stranded = self._inflow.close()
        if stranded:
            # nsqd is gone, and this may be the last that is known of them.
            args = [
                part
                for each in stranded
                for part in (each.id, released_score(each.id), each.body, self._digest(each.body))
            ]
            try:
                self._side_store.run("park", self._names.park, args)
            except Unavailable as error:
                _log.error("%d messages of an nsqd that is gone could not be kept: %s", len(stranded), error)

    def _look_around(self, found: Sequence[Delivery]) -> None:
        """What has to be seen to before more is leased."""
        self._inflow.look_after()
        self._mark_untold()
        self._sweeper.turn(self._inflow.newest)
        if self._missing and not found:
            missing, self._missing = self._missing, ""
            raise group_lost(self._names.channel, f"has no channel on nsqd at {missing} any more")

    def _lease(self, limit: int, found: list[Delivery]) -> float:
        """Lease what there is and add it to ``found``; the seconds until something beside nsqd is due."""
        self._inflow.want(limit)
        taken = self._inflow.take(limit)
        token = next(self._tokens)
        args: list[str | int] = [token, self._consumer, limit, self._lease_ms, len(taken)]
        args += [each.id for each in taken]
        args += [self._digest(each.body) for each in taken]
        try:
            reply = self._side_store.run("lease", self._names.lease, args, group=self._names.channel)
        except (GroupLost, Unavailable):
            self._inflow.put_back(taken)
            raise
        if reply[0] == b"paused":
            self._inflow.want(0)
            self._inflow.give_back([*taken, *self._inflow.take(len(self._inflow))])
            return POLL_S
        _, due_ms, kept, fresh = reply
        now = time.monotonic()
        handed: list[tuple[str, DeliveryLease]] = []
        for id_bytes, body, failed, history in kept:
            message_id = id_bytes.decode()
            receipt = f"{message_id}|{token}"
            handed.append((receipt, DeliveryLease(message_id, body, None, now + self._lease_ms / 1000)))
            found.append(Delivery(receipt, message_id, body, failed + 1, _history(history)))
        if fresh:
            handed += self._hand_out(list(zip(taken, fresh, strict=True)), token, now, found)
        self._leases.add(handed, self._lease_ms / 1000)
        return float(due_ms + 1) / 1000 if due_ms >= 0 else POLL_S

    def _digest(self, body: bytes) -> str:
        # There may be copies of a time when some were kept.
        return digest_of(body) if self._keep is not Keep.NEVER or self._sweeper.copies_seen else ""

    def _hand_out(
        self,
        answered: Sequence[tuple[Arrived, int | list[int | bytes]]],
        token: str,
        now: float,
        found: list[Delivery],
    ) -> list[tuple[str, DeliveryLease]]:
        """Sort what nsqd sent by what the store says of each."""
        handed: list[tuple[str, DeliveryLease]] = []
        done: list[Arrived] = []
        parked: list[Arrived] = []
        later: list[Arrived] = []
        aged: defaultdict[NsqdConnection, list[str]] = defaultdict(list)
        lease_s = self._lease_ms / 1000
        for each, answer in answered:
            if answer == 1:
                done.append(each)
                continue
            if answer == 2:
                parked.append(each)
                continue
            if answer == 3:
                later.append(each)
                continue
            receipt = f"{each.id}|{token}"
            if now - each.at > lease_s / 4:
                # nsqd has counted since it sent it, we count from now.
                aged[each.connection].append(each.id)
            handed.append(
                (receipt, DeliveryLease(each.id, each.body, each.connection, now + lease_s, each.attempts > 1))
            )
            if isinstance(answer, list):
                failed, history = answer
                found.append(Delivery(receipt, each.id, each.body, int(failed) + 1, _history(history)))
            else:
                found.append(Delivery(receipt, each.id, each.body, 1))
        if parked:
            args = [part for each in parked for part in (each.id, "", each.body, "")]
            try:
                self._side_store.run("park", self._names.park, args)
            except Unavailable as error:
                # What was leased with these must not get lost; they are asked about again, and so is the store.
                _log.warning("%d messages that others hold could not be kept: %s", len(parked), error)
                later, parked = [*parked, *later], []
        if later:
            self._inflow.put_back(later)
        self._finish([*done, *parked])
        self._each(aged, lambda connection, ids: connection.touch(ids))
        return handed

    def _tell_nsqd(self, batch: Sequence[Settlement], results: Sequence[bool]) -> None:
        """Let nsqd forget what is settled or lies beside it now; what another holds is no longer ours to touch."""
        finished: defaultdict[NsqdConnection, list[str]] = defaultdict(list)
        gone: defaultdict[NsqdConnection, list[DeliveryLease]] = defaultdict(list)
        for each, accepted in zip(batch, results, strict=True):
            lease = self._leases.drop(each.receipt)
            if lease is None or lease.connection is None:
                continue
            gone[lease.connection].append(lease)
            # What was decided in an answer that was lost lies beside nsqd, and is refused now.
            if accepted or each.verdict is Verdict.ACK or lease.unheard:
                finished[lease.connection].append(lease.id)

        def tell() -> None:
            now = time.monotonic()
            for connection, leases in gone.items():
                overdue = [lease.id for lease in leases if lease.until < now]
                if not connection.finish(finished[connection], uncount(leases), overdue):
                    # It broke after they were settled: nsqd sends them again once it is back.
                    self._untold.extend(finished[connection])

        if gone:
            self._loop.post(tell)
        self._note_not_finished(finished)

    def _note_not_finished(self, connections: defaultdict[NsqdConnection, list[str]]) -> None:
        """nsqd gave up waiting for some before we had them finished: it sends them again, and nobody needs them."""
        ids: list[str] = []
        for connection in connections:
            while connection.not_finished:
                ids.append(connection.not_finished.popleft())
        if ids:
            self._mark(ids)

    def _mark_untold(self) -> None:
        """Before anything new is leased, so that what nsqd sends again is known."""
        ids: list[str] = []
        while self._untold:
            ids.append(self._untold.popleft())
        if ids:
            self._mark(ids)

    def _after_loss(self, connection: NsqdConnection) -> None:
        ids = [*connection.finished_lately(), *connection.not_finished]
        if ids and not self._closed:
            self._mark(ids)

    def _mark(self, ids: Sequence[str]) -> None:
        try:
            for start in range(0, len(ids), 1_000):
                self._side_store.run("mark", self._names.mark, (STALE_MS, *ids[start : start + 1_000]))
        except Unavailable as error:
            _log.warning("%d settled messages may be delivered again: %s", len(ids), error)

    def _note_missing(self, node: Node) -> None:
        self._missing = node.name

    def _finish(self, messages: Sequence[Arrived]) -> None:
        by_connection: defaultdict[NsqdConnection, list[Arrived]] = defaultdict(list)
        for each in messages:
            by_connection[each.connection].append(each)
        self._each(by_connection, lambda connection, some: connection.drop(some))

    def _each(
        self, what: defaultdict[NsqdConnection, list[T]], act: Callable[[NsqdConnection, list[T]], object]
    ) -> None:
        """Do ``act`` on the loop for every connection."""

        def run() -> None:
            for connection, some in what.items():
                act(connection, some)

        if what:
            self._loop.post(run)


def _history(raw: int | bytes) -> tuple[Attempt, ...]:
    return _history_decoder.decode(b"[" + bytes(raw) + b"]") if raw else ()


def _may_come_again(lease: DeliveryLease, now: float) -> bool:
    """Whether finishing it may not reach the copy that nsqd has."""
    return lease.connection is not None and (not lease.connection.open or now > lease.until)
