"""One portion of a log, read whole as tables; what retention takes under the reader's hands is told."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import pyarrow as pa

from engine.bus import Rereads, gone
from engine.core.errors import HbusError
from engine.pipeline.source.columns import Columns, Rows
from engine.pipeline.source.planning import Loss, Portion, Why, cut

#: How many messages one table has at most.
ROWS = 10_000

#: Is told of what is gone.
OnLoss = Callable[[Loss], None]


class MessagesLost(HbusError):
    """Messages were gone before they were read."""

    def __init__(self, topic: str, loss: Loss) -> None:
        many = "some messages" if loss.messages is None else f"{loss.messages} messages"
        how = "retention has taken them" if loss.why is Why.TRIMMED else "the store was emptied, or the topic made anew"
        super().__init__(
            f"Of {topic}, log {loss.log}, {many} after {loss.after or 'its beginning'} are gone: {how}.",
            remedy="Set failOnLoss to false to read on, with a row that says how many (column lost); begin anew by"
            " startingOffsets; or keep messages longer.",
        )


def chunks(rereads: Rereads, topic: str, portion: Portion) -> Iterator[Rows]:
    """All of it, at most :data:`ROWS` at a time. Raises ``Unavailable``."""
    after = portion.after
    while True:
        found = rereads.stretch(topic, portion.log, after, upto=portion.upto, limit=ROWS)
        if found.bodies:
            after = found.positions[-1]
            yield Rows(topic, portion.log, found.positions, found.at_ms, found.bodies)
        if found.ended:
            return


def in_pieces(rereads: Rereads, topic: str, portion: Portion, pieces: int) -> Sequence[Portion]:
    """See :func:`~engine.pipeline.source.planning.cut`; of one that holds nothing any more there is one piece."""
    if pieces <= 1:
        return [portion]
    first = rereads.stretch(topic, portion.log, portion.after, upto=portion.upto, limit=1)
    if not first.at_ms:
        return [portion]
    return cut(portion, pieces, first.at_ms[0], partial(rereads.place_before, topic))


def read_portion(
    rereads: Rereads, topic: str, portion: Portion, columns: Columns, on_loss: OnLoss
) -> Iterator[pa.RecordBatch]:
    """In tables of at most :data:`ROWS`. Raises ``Unavailable``, and what ``on_loss`` raises."""
    read, first = 0, ""
    for rows in chunks(rereads, topic, portion):
        first = first or rows.positions[0]
        read += len(rows.bodies)
        yield columns.table(rows)
    if (loss := _lost_meanwhile(rereads, topic, portion, read, first)) is not None:
        on_loss(loss)


def _lost_meanwhile(rereads: Rereads, topic: str, portion: Portion, read: int, first: str) -> Loss | None:
    """What went between the plan and the end of reading."""
    if portion.messages is not None:
        missing = portion.messages - read
        return Loss(portion.log, Why.TRIMMED, portion.after, first, missing) if missing > 0 else None
    if portion.lost_before is None:
        return None
    now = next((extent for extent in rereads.extents(topic) if extent.log == portion.log), None)
    if now is not None and gone(now, 0) == portion.lost_before:
        return None
    # The oldest go first: what is there still from before, or of the beginning, says that nothing behind it went.
    edge = first or portion.upto
    _, held = rereads.nth_after(topic, portion.log, "", upto=edge, number=1)
    if held:
        return None
    return Loss(portion.log, Why.TRIMMED, portion.after, first, None)
