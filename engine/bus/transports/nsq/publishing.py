"""Publishing: chunks to one nsqd each, confirmed by its OK; keys are reserved before and confirmed after."""

from __future__ import annotations

import itertools
import logging
import secrets
import time
from collections.abc import Callable, Iterator, Sequence

from engine.bus.bounds import too_large
from engine.bus.chunking import CHUNK_MESSAGES, chunked
from engine.bus.transport import Outcome, Outgoing, Status
from engine.bus.transports.nsq.copies import CopiedCall, Copies, nothing_done, packed
from engine.bus.transports.nsq.http import CallAnswerLost, CallNotSent, CallRefused, CallUnderWay
from engine.bus.transports.nsq.names import TopicNames
from engine.bus.transports.nsq.nodes import Node, Nodes
from engine.bus.transports.nsq.side_store import SideStore
from engine.core.errors import Unavailable

#: A reservation that its publisher never confirmed is free again after so many ms: it died, or lost the store.
RESERVED_MS = 20_000
#: Seconds between two questions about a key that another publisher has reserved.
ASK_AGAIN_S = 0.01
#: How many seconds of publishing the pace of a topic goes back.
PACE_MOST = 20_000

_log = logging.getLogger(__name__)

Call = CallUnderWay | CopiedCall


class _Sent:
    """A chunk on its way."""

    __slots__ = ("_outcomes", "call", "chunk")

    def __init__(
        self, chunk: Sequence[Outgoing], call: Call | str | None, outcomes: list[Outcome] | None = None
    ) -> None:
        self.chunk = chunk
        #: The one call for all of it, or why there is none; ``None`` where ``outcomes`` are known already.
        self.call = call
        self._outcomes = outcomes

    def answered(self) -> list[Outcome]:
        """What became of each; waits for nsqd's answer."""
        if self._outcomes is None:
            assert self.call is not None
            status, error = _status(self.call, len(self.chunk))
            self._outcomes = [Outcome(status, each.message_id, "", error) for each in self.chunk]
        return self._outcomes

    def stored(self) -> int:
        """How many are stored and not counted yet; waits likewise. Those with keys are counted with their keys."""
        return len(self.chunk) if self.call is not None and self.answered()[0].status is Status.OK else 0


class Publishing:
    """Thread-safe."""

    def __init__(self, side_store: SideStore, nodes: Nodes, copies: Copies, max_bytes: int) -> None:
        self._side_store = side_store
        self._nodes = nodes
        self._copies = copies
        self._max_bytes = max_bytes
        self._turn = itertools.count()

    def publish(self, names: TopicNames, batch: Sequence[Outgoing]) -> list[Outcome]:
        """See :meth:`engine.bus.transport.Transport.publish`."""
        return [each for answered in self.publish_chunks(names, chunked(batch)) for each in answered]

    def publish_chunks(self, names: TopicNames, chunks: Iterator[Sequence[Outgoing]]) -> Iterator[list[Outcome]]:
        """See :meth:`engine.bus.transport.Overlapping.publish_chunks`. One chunk at a time is with nsqd: meanwhile the
        one before is told of, and the caller makes the next."""
        sent: _Sent | None = None
        error = ""
        stored = 0
        try:
            for chunk in chunks:
                before = sent
                if before is not None:
                    error = self._broken(before)
                sent = None if error else self._begin(names, chunk)
                if before is not None:
                    stored += before.stored()
                    if stored >= CHUNK_MESSAGES:
                        counted, stored = stored, 0
                        self._count(names, counted)
                    yield before.answered()
                if error:
                    # Sending the rest now would break the order of the batch.
                    why = f"Not sent, because messages before it failed: {error}"
                    yield [Outcome(Status.FAILED, each.message_id, error=why) for each in chunk]
            if sent is not None:
                stored += sent.stored()
                yield sent.answered()
        finally:
            if stored:
                self._count(names, stored)

    def _begin(self, names: TopicNames, chunk: Sequence[Outgoing]) -> _Sent:
        bodies = [each.body for each in chunk]
        sizes = list(map(len, bodies))
        if min(sizes) > 0 and max(sizes) <= self._max_bytes and not any(each.idempotency_key for each in chunk):
            # Nothing is refused here, and nobody asks for more than that it be stored.
            return _Sent(chunk, self._call(names, packed(bodies), len(bodies)))
        return _Sent(chunk, None, self._with_keys(names, chunk))

    def _broken(self, sent: _Sent) -> str:
        """Why nothing more may be sent; empty when all is well, or a message alone was at fault."""
        broken = next((each for each in sent.answered() if each.status in _BROKEN), None)
        return "" if broken is None or self._size_problem(broken, sent.chunk) else broken.error

    def _with_keys(self, names: TopicNames, chunk: Sequence[Outgoing]) -> list[Outcome]:
        answers: list[Outcome | None] = [self._unfit(each) for each in chunk]
        first: dict[str, int] = {}
        repeats: list[int] = []
        sending: list[int] = []
        keyed: list[int] = []
        for index, each in enumerate(chunk):
            if answers[index] is not None:
                continue
            if not each.idempotency_key:
                sending.append(index)
            elif each.idempotency_key in first:
                repeats.append(index)
            else:
                first[each.idempotency_key] = index
                keyed.append(index)
        token = secrets.token_hex(8) if keyed else ""
        sending = sorted([*sending, *self._reserve(names, chunk, keyed, token, answers)])
        self._send(names, chunk, sending, answers)
        for index in repeats:
            original = first[chunk[index].idempotency_key]
            answers[index] = _repeated(chunk[index], chunk[original], answers[original])
        self._book(names, chunk, sending, answers, token)
        return [answer for answer in answers if answer is not None]

    def _unfit(self, each: Outgoing) -> Outcome | None:
        """What nsqd would answer by closing the connection, under every message that is on its way there."""
        size = len(each.body)
        if 0 < size <= self._max_bytes:
            return None
        why = too_large(self._max_bytes) if size else _EMPTY
        return Outcome(Status.FAILED, each.message_id, error=why)

    def _size_problem(self, outcome: Outcome, chunk: Sequence[Outgoing]) -> bool:
        return any(outcome.message_id == each.message_id and self._unfit(each) is not None for each in chunk)

    def _reserve(
        self,
        names: TopicNames,
        chunk: Sequence[Outgoing],
        keyed: Sequence[int],
        token: str,
        answers: list[Outcome | None],
    ) -> list[int]:
        """Take the keys; returns whose message is to be sent. Waits for publishers that hold some of them."""
        return self._take(names, chunk, keyed, lambda wanted: ("reserve", _reservations(token, wanted)), answers)

    def claim(self, names: TopicNames, batch: Sequence[Outgoing]) -> list[Outcome]:
        """See :meth:`engine.bus.optional.Claiming.claim`."""
        answers: list[Outcome | None] = [None] * len(batch)
        for index in self._take(names, batch, range(len(batch)), lambda wanted: ("claim", _claims(wanted)), answers):
            answers[index] = Outcome(Status.OK, batch[index].message_id)
        return [answer for answer in answers if answer is not None]

    def _take(
        self,
        names: TopicNames,
        chunk: Sequence[Outgoing],
        keyed: Sequence[int],
        call: Callable[[Sequence[Outgoing]], tuple[str, list[str | int]]],
        answers: list[Outcome | None],
    ) -> list[int]:
        """Run ``call``'s script on the keys, again on those that another publisher holds; returns which are taken."""
        mine: list[int] = []
        open_ones = list(keyed)
        deadline = time.monotonic() + RESERVED_MS / 1000 + 1
        while open_ones:
            script, args = call([chunk[index] for index in open_ones])
            keys = [names.idempotency(chunk[index].idempotency_key) for index in open_ones]
            try:
                replies = self._side_store.run(script, keys, args)
            except Unavailable as error:
                for index in open_ones:
                    answers[index] = Outcome(Status.FAILED, chunk[index].message_id, error=str(error))
                break
            waiting = []
            for index, reply in zip(open_ones, replies, strict=True):
                if reply == 0:
                    mine.append(index)
                elif reply == 1:
                    waiting.append(index)
                else:
                    answers[index] = _taken(*(part.decode() for part in reply))
            open_ones = waiting
            if open_ones and time.monotonic() > deadline:
                for index in open_ones:
                    answers[index] = Outcome(Status.UNKNOWN, chunk[index].message_id, error=_RESERVED)
                break
            if open_ones:
                time.sleep(ASK_AGAIN_S)
        return mine

    def _send(
        self, names: TopicNames, chunk: Sequence[Outgoing], sending: Sequence[int], answers: list[Outcome | None]
    ) -> None:
        if not sending:
            return
        status, error = self._confirmed(names, packed([chunk[index].body for index in sending]), len(sending))
        for index in sending:
            answers[index] = Outcome(status, chunk[index].message_id, error=error)

    def _confirmed(self, names: TopicNames, body: bytes, number: int) -> tuple[Status, str]:
        return _status(self._call(names, body, number), number)

    def _call(self, names: TopicNames, body: bytes, number: int) -> Call | str:
        """Send to the first nsqd that can be reached, or why none can be; the others are asked only while nothing was
        sent."""
        nodes = self._nodes.all()
        start = next(self._turn)
        trouble: list[str] = []
        for offset in range(len(nodes)):
            node = nodes[(start + offset) % len(nodes)]
            try:
                self.prepare(node, names)
                call = node.http.begin("/mpub", body, topic=names.nsq, binary="true")
            except Unavailable as error:
                trouble.append(str(error))
            else:
                return self._copies.begun(names, call, body, number)
        return " ".join(trouble) or "There is no nsqd."

    def prepare(self, node: Node, names: TopicNames) -> None:
        """Make the channels of all groups before anything is published: a later one gets nothing of it."""
        losses = node.http.losses
        if node.prepared.get(names.nsq) == losses:
            return
        try:
            groups = sorted(each.decode() for each in self._side_store.command("SMEMBERS", names.groups))
            node.make(names.nsq, groups)
        except CallAnswerLost as error:
            # Making something twice is harmless, and nothing has been published.
            raise CallNotSent(str(error)) from error
        node.prepared[names.nsq] = losses

    def _book(
        self,
        names: TopicNames,
        chunk: Sequence[Outgoing],
        sending: Sequence[int],
        answers: Sequence[Outcome | None],
        token: str,
    ) -> None:
        published = duplicates = 0
        keys: list[str] = []
        entries: list[str | int] = []
        for answer in answers:
            if answer is not None:
                published += answer.status is Status.OK
                duplicates += answer.status in (Status.DUPLICATE, Status.HELD)
        for index in sending:
            each, answer = chunk[index], answers[index]
            # Of an unknown outcome the reservation is left to run out by itself.
            if each.idempotency_key and answer is not None and answer.status is not Status.UNKNOWN:
                keep = answer.status is Status.OK
                keys.append(names.idempotency(each.idempotency_key))
                entries += ("keep" if keep else "free", each.idempotency_digest, each.message_id)
                entries.append(max(1, each.idempotency_window_ms))
        if published or duplicates or keys:
            self._count(names, published, duplicates, token, (keys, entries))

    def _count(
        self,
        names: TopicNames,
        published: int,
        duplicates: int = 0,
        token: str = "",
        reserved: tuple[Sequence[str], Sequence[str | int]] = ((), ()),
    ) -> None:
        """Note what was published, and what became of the keys that were reserved for it."""
        keys, entries = reserved
        args = (token, published, duplicates, PACE_MOST, *entries)
        try:
            self._side_store.run("confirm", (names.stats, names.pace, *keys), args)
        except Unavailable as error:
            # They are stored all the same: that is what the caller must hear.
            _log.warning("%d messages published to %s could not be counted: %s", published, names.nsq, error)


def _status(call: Call | str, number: int) -> tuple[Status, str]:
    """What nsqd's answer says of so many messages; without a call none was sent."""
    if isinstance(call, str):
        return Status.FAILED, call
    try:
        call.answer()
    except CallAnswerLost as error:
        return Status.UNKNOWN, str(error)
    except CallRefused as error:
        return (Status.FAILED if nothing_done(error, number == 1) else Status.UNKNOWN), str(error)
    return Status.OK, ""


_BROKEN = (Status.FAILED, Status.UNKNOWN)
_EMPTY = "NSQ takes no empty message."
_CONFLICT = "the idempotency key was used before with another body"
_RESERVED = "another publisher holds the idempotency key and has not said what became of it"


def _reservations(token: str, wanted: Sequence[Outgoing]) -> list[str | int]:
    args: list[str | int] = [token, RESERVED_MS]
    for each in wanted:
        args += (each.idempotency_digest, each.message_id)
    return args


def _claims(wanted: Sequence[Outgoing]) -> list[str | int]:
    args: list[str | int] = []
    for each in wanted:
        # The store takes no window of zero.
        args += (each.idempotency_digest, each.message_id, max(1, each.idempotency_window_ms), each.due_ms)
    return args


def _taken(what: str, message_id: str, due_ms: str) -> Outcome:
    """What is said of a key that stands for another message."""
    return Outcome(Status(what), message_id, error=_CONFLICT if what == "conflict" else "", due_ms=int(due_ms))


def _repeated(each: Outgoing, original: Outgoing, answer: Outcome | None) -> Outcome:
    """The answer to a key that came twice in one batch, from the answer to its first."""
    assert answer is not None
    if answer.status in _BROKEN:
        return Outcome(answer.status, each.message_id, error=answer.error)
    if original.idempotency_digest != each.idempotency_digest:
        return Outcome(Status.CONFLICT, answer.message_id, error=_CONFLICT)
    if answer.status in (Status.CONFLICT, Status.HELD):
        return answer
    return Outcome(Status.DUPLICATE, answer.message_id)
