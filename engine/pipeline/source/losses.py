"""Messages that are gone, as a row where they would have stood."""

from __future__ import annotations

import pyarrow as pa

from engine.pipeline.source.columns import LOST
from engine.pipeline.source.planning import Loss

#: Said where nobody knows how many are gone.
UNKNOWN = -1


def loss_row(topic: str, loss: Loss, schema: pa.Schema) -> pa.RecordBatch:
    """Nothing of a message but where it would have lain: ``position`` is the last place before, ``lost`` how many."""
    said = {
        "topic": topic,
        "log": loss.log,
        "position": loss.after or None,
        "malformed": f"gone before it was read: {loss.why}",
        LOST: UNKNOWN if loss.messages is None else loss.messages,
    }
    return pa.RecordBatch.from_pylist([{name: said.get(name) for name in schema.names}], schema=schema)
