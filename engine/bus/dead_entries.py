"""What lies in a stream of dead letters, read so that nothing written there by others holds up those that are ours."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from engine.bus.transport import DeadEntry


def dead_entry(
    entry: str, flat: Sequence[bytes], *, is_position: Callable[[str], bool], partition_mark: str = ""
) -> DeadEntry:
    """The letter in ``entry``, which holds ``flat``: name, value, name, value …

    What is missing is empty, and so is a position that is none. Without an envelope the body is all there is.
    """
    fields = dict(zip(flat[::2], flat[1::2], strict=True))
    position = fields.get(b"position", b"").decode("utf-8", "replace") + partition_mark
    body = fields.get(b"event")
    if body is None:
        body = b"\n".join(name + b"=" + value for name, value in fields.items())
    return DeadEntry(
        entry + partition_mark, position if is_position(position) else "", body, fields.get(b"record", b"")
    )
