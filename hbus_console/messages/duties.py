"""What the keeper does for the ledger of messages."""

from __future__ import annotations

from django.conf import settings

from hbus_console.messages.retention import LedgerRetention


def ledger_retention() -> LedgerRetention:
    return LedgerRetention(settings.LEDGER_MAX_MESSAGES)
