"""The inbox: a message's effects are committed once, together with the note that they were."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from django.db import DatabaseError, InterfaceError, connection, transaction

from engine.bus.errors import InboxAway
from engine.core.error_text import words_of
from hbus_console.database import fresh_connections, is_away
from hbus_console.outbox.fitting import fitting
from hbus_console.outbox.models import InboxEntry

_INSERT = (
    f"INSERT INTO {InboxEntry._meta.db_table} (subscription, source, message_id, at_ms)"  # noqa: S608 - a constant
    " VALUES (%s, %s, %s, %s) ON CONFLICT DO NOTHING"
)

# SQLite admits one writer. Threads that queue here wait exactly their turn; left to SQLite's busy handler they would
# sleep in growing steps and overtake each other.
_turn = threading.Lock()


class DjangoInbox:
    """An :class:`engine.bus.inbox.Inbox` in the default database. Thread-safe."""

    def once(self, subscription: str, source: str, message_id: str, effect: Callable[[], object]) -> bool:
        """Run ``effect`` unless this message was handled before; ``True`` when it ran.

        Entry and effect commit together: whatever ``effect`` raises rolls both back and is raised again. A second
        delivery at the same time waits for the first one's end. Raises ``InboxAway`` when the database is locked or
        away before ``effect`` begins or after it has returned.
        """
        inside = False
        try:
            with fresh_connections(), _one_writer(), transaction.atomic():
                if not _enter(subscription, source, message_id):
                    return False
                inside = True
                effect()
                inside = False
                return True
        except (DatabaseError, InterfaceError) as error:
            if inside or not is_away(error):
                raise
            raise InboxAway(f"The database of the inbox does not answer: {words_of(error)}.") from error


def _enter(subscription: str, source: str, message_id: str) -> bool:
    with connection.cursor() as cursor:
        # Whoever writes into a store may write any name.
        names = [subscription, fitting(source, 300), fitting(message_id, 64)]
        cursor.execute(_INSERT, [*names, time.time_ns() // 1_000_000])
        return bool(cursor.rowcount == 1)


def _one_writer() -> AbstractContextManager[object]:
    return _turn if connection.vendor == "sqlite" else nullcontext()
