"""What moves: ``archive``, with each commit of the lake, ``series``, with each roll-up of a day, ``audits`` and
``queries``."""

from __future__ import annotations

from django.db import connection

from hbus_console.pipelines.models import BusAudit, LakeQuery, SavedQuery
from hbus_console.pipelines.series import rolled_up_ms
from hbus_console.ui.live import LiveCells
from hbus_console.ui.polling import once_a_poll
from hbus_console.wiring.lake import lake

_AUDITS, _QUERIES, _SAVED = (model._meta.db_table for model in (BusAudit, LakeQuery, SavedQuery))
_STATE = LakeQuery.State
# Asked at every poll, so in one statement and on indexes. Without a new number the open ones only become fewer, and
# those that wait before those that run: no change leaves all three as they were.
_NEWEST = f"""SELECT (SELECT MAX(id) FROM {_AUDITS}), (SELECT MAX(id) FROM {_QUERIES}),
    (SELECT COUNT(*) FROM {_QUERIES} WHERE state = '{_STATE.WAITING}'),
    (SELECT COUNT(*) FROM {_QUERIES} WHERE state = '{_STATE.RUNNING}'),
    (SELECT MAX(saved_at) FROM {_SAVED}), (SELECT COUNT(*) FROM {_SAVED})"""  # noqa: S608 - constants


def cells(now_ms: int, scopes: tuple[str, ...]) -> LiveCells:
    """The same for everybody: numbers, which say of no topic that it moved."""
    audits, *queries = once_a_poll(_newest)
    return LiveCells(
        marks={
            "archive": once_a_poll(_version),
            "series": once_a_poll(rolled_up_ms),
            "audits": audits,
            "queries": str(queries),
        }
    )


def _version() -> int:
    return lake().version()


def _newest() -> tuple[object, ...]:
    with connection.cursor() as cursor:
        cursor.execute(_NEWEST)
        return tuple(cursor.fetchone())
