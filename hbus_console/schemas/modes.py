"""The modes of compatibility, as a topic names them, and what each asks for."""

from __future__ import annotations

MODES = {
    "none": "any schema may follow",
    "backward": "new consumers understand old messages",
    "forward": "old consumers understand new messages",
    "full": "both understand both",
}
