"""Which files a span is read from, and what can be told of it before one is read. Pure: from the lake's state alone."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import msgspec

from engine.pipeline.lake.state import Erased, Kind, KnownLoss, LakeFile, LakeState, TopicHeld, date_of

#: When a message was stored, epoch milliseconds, and its place: sorts in the order of storing.
Order = tuple[int, tuple[int, ...]]
#: How far one came: by log, when the last message looked at was stored, and its position.
Came = Mapping[str, tuple[int, str]]

_NUMBERS = re.compile(r"\d+")


class ReplaySpan(msgspec.Struct, frozen=True, gc=False):
    """What of one topic was stored from ``from_ms`` on and before ``to_ms``, epoch milliseconds; of one key, or all."""

    topic: str
    from_ms: int
    to_ms: int
    key: str = ""


class SpanTold(msgspec.Struct, frozen=True, gc=False):
    """What a lake has of a span, keys left aside."""

    files: int
    bytes: int
    #: How many messages there are: those of files that lie in it whole, and those of all that reach into it.
    least: int
    most: int
    #: Losses that lie in it, as closely as is known.
    losses: list[KnownLoss]
    #: The first day that retention has left, where it took something of the span; empty: it did not.
    kept_from: str
    #: What was erased of the topic; nobody keeps when that had been stored.
    erased: list[Erased]

    @property
    def lost(self) -> int:
        """Of the losses that were counted, how many messages."""
        return sum(known.loss.messages or 0 for known in self.losses)

    @property
    def uncounted_losses(self) -> int:
        """How many losses nobody knows the size of."""
        return sum(known.loss.messages is None for known in self.losses)

    @property
    def erased_messages(self) -> int:
        return sum(each.rows.get(Kind.MESSAGES, 0) for each in self.erased)


def order_of(at_ms: int, position: str) -> Order:
    """Of messages of one instant and log the numbers in their positions say which came first."""
    return at_ms, tuple(map(int, _NUMBERS.findall(position)))


def files_in(state: LakeState, span: ReplaySpan, came: Came | None = None) -> list[LakeFile]:
    """Those that may hold something of the span beyond ``came``."""
    came = came or {}
    return [
        file
        for file in state.files_of(span.topic, date_of(max(0, span.from_ms)), date_of(max(0, span.to_ms)))
        if file.last_ms >= max(span.from_ms, came[file.log][0] if file.log in came else 0)
        and file.first_ms < span.to_ms
    ]


def told_of(state: LakeState, span: ReplaySpan) -> SpanTold:
    """What is known of the span without reading a file."""
    files, held = files_in(state, span), state.held(span.topic)
    whole = (file for file in files if span.from_ms <= file.first_ms and file.last_ms < span.to_ms)
    return SpanTold(
        files=len(files),
        bytes=sum(file.bytes for file in files),
        least=sum(file.rows for file in whole),
        most=sum(file.rows for file in files),
        losses=list(_losses_in(state, held, span)),
        kept_from=held.kept_from if held.kept_from > date_of(max(0, span.from_ms)) else "",
        erased=list(held.erased),
    )


def _losses_in(state: LakeState, held: TopicHeld, span: ReplaySpan) -> Iterable[KnownLoss]:
    """A loss lies between two messages; where their files do not tell when these were stored it may lie anywhere
    before it was found."""
    files = state.files_of(span.topic)
    ends = {(file.log, file.last): file.last_ms for file in files}
    begins = {(file.log, file.first): file.first_ms for file in files}
    for known in held.losses:
        loss = known.loss
        if loss.log in (Kind.PUBLISHED, Kind.DELIVERIES):
            # Of what the ledger tells.
            continue
        from_ms = ends.get((loss.log, loss.after), 0)
        until_ms = begins.get((loss.log, loss.before), known.at_ms)
        if from_ms < span.to_ms and until_ms >= span.from_ms:
            yield known
