"""Why a write fails."""

from __future__ import annotations

from engine.core.errors import BadInput, HbusError


class RowRefused(BadInput):
    """A row that nobody may publish, by its id, and why."""

    def __init__(self, row: str | None, why: str, remedy: str, field: str) -> None:
        super().__init__(f"The row {row or 'without id'} cannot be published: {why}", remedy=remedy, field=field)


class StoreRefused(HbusError):
    """What the store does not take: nothing of the row, nor of those behind it in its task, was stored."""

    def __init__(self, row: str, why: str, remedy: str) -> None:
        super().__init__(
            f"The write ended before the row {row}: {why.rstrip('.')}.",
            remedy=f"{remedy} Then run the job again under the same writeId: it adds what is missing.",
        )


class KeyInTwoTasks(BadInput):
    """Nobody can keep the order of a key whose rows two tasks write."""

    def __init__(self, key: str) -> None:
        super().__init__(
            f"Rows of the partitionkey {key!r} are in two tasks, so their order cannot be kept; of those that this run"
            " has written some may be missing in between.",
            remedy='Bring each key into one task, .repartition("partitionkey").sortWithinPartitions(…), and write under'
            " another writeId into a topic that has none of it; or set order to none.",
            field="order",
        )
