from __future__ import annotations

from django.apps import AppConfig


class LedgerConfig(AppConfig):
    name = "hbus_console.ledger"
    label = "ledger"
