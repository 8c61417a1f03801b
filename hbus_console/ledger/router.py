"""Sends the ledger's tables to their own database; see DATABASES in the settings."""

from __future__ import annotations

from typing import Any

from django.db import DEFAULT_DB_ALIAS, connections

LEDGER = "ledger"


class LedgerRouter:
    def db_for_read(self, model: type[Any], **hints: Any) -> str | None:
        return LEDGER if model._meta.app_label == LEDGER else None

    def db_for_write(self, model: type[Any], **hints: Any) -> str | None:
        return LEDGER if model._meta.app_label == LEDGER else None

    def allow_migrate(self, db: str, app_label: str, **hints: Any) -> bool:
        # Where both aliases lead to one database there is one record of migrations, so that a table left out for one
        # alias would count as made for the other too.
        return _one_database() or (app_label == LEDGER) == (db == LEDGER)


def _one_database() -> bool:
    def place(alias: str) -> tuple[Any, ...]:
        values = connections[alias].settings_dict
        return values["ENGINE"], values["HOST"], str(values["PORT"]), values["NAME"]

    return place(LEDGER) == place(DEFAULT_DB_ALIAS)
