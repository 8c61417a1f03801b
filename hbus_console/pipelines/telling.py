"""What came of archive runs and of what follows them, in words."""

from __future__ import annotations

from engine.pipeline.lake.state import Kind
from hbus_console.pipelines.archiving import ArchiveRun
from hbus_console.pipelines.upkeep import Upkeep
from hbus_console.ui.formats import counted


def told(run: ArchiveRun, *, weighed: bool = False) -> str:
    """In one line each of messages and of the ledger, and one more for each loss.

    How much they weigh is for whoever runs the command: who reads of the job may not reveal what its topics mask, and
    the size of packed files would tell that apart.
    """
    messages = {topic: number for outcome in run.stores for topic, number in outcome.messages.items() if number}
    losses = [(topic, loss) for outcome in run.stores for topic, found in outcome.losses.items() for loss in found]
    files = sum(outcome.files for outcome in run.stores)
    lines = []
    if messages:
        lines.append(
            f"{sum(messages.values()):,} messages of {counted(len(messages), 'topic')} in {counted(files, 'file')}"
            f"{_weight(sum(outcome.bytes for outcome in run.stores)) if weighed else ''}."
        )
    if run.ledger.files:
        rows = {kind: sum(run.ledger.rows.get(kind, {}).values()) for kind in (Kind.PUBLISHED, Kind.DELIVERIES)}
        lines.append(
            f"Of the ledger {rows[Kind.PUBLISHED]:,} published and {rows[Kind.DELIVERIES]:,} of deliveries in"
            f" {counted(run.ledger.files, 'file')}{_weight(run.ledger.bytes) if weighed else ''}."
        )
    lines = lines or ["Nothing waited."]
    for topic, loss in losses:
        many = "Some" if loss.messages is None else f"{loss.messages:,}"
        lines.append(f"{many} messages of {topic}, log {loss.log}, were gone before they were archived: {loss.why}.")
    for topic, found in run.ledger.losses.items():
        for loss in found:
            many = "Some" if loss.messages is None else f"{loss.messages:,}"
            lines.append(
                f"{many} rows of the ledger of {topic}, {loss.log}, were gone before they were archived: {loss.why}."
            )
    return "\n".join(lines)


def _weight(size: int) -> str:
    return f", {size:,} bytes"


def told_of_upkeep(upkeep: Upkeep) -> list[str]:
    """A sentence for each thing that was done; none where nothing was."""
    lines = [
        f"{each.topic}: {counted(each.rows, 'row')} of {counted(each.files, 'file')}, stored before {each.kept_from}, "
        "went as its rules say."
        for each in upkeep.gone
    ]
    if upkeep.compacted.made:
        lines.append(f"{counted(upkeep.compacted.merged, 'file')} became {upkeep.compacted.made:,}.")
    if upkeep.exported:
        lines.append(f"{counted(len(upkeep.exported), 'Delta table')} brought up to date.")
    return lines
