"""Sends the ledger's tables to their own database; see DATABASES in the settings."""

from __future__ import annotations

from typing import Any

from django.conf import settings

LEDGER = "ledger"
#: The labels of the apps whose tables lie there.
_APPS = {"ledger", "evidence"}


class LedgerRouter:
    def db_for_read(self, model: type[Any], **hints: Any) -> str | None:
        return LEDGER if model._meta.app_label in _APPS else None

    def db_for_write(self, model: type[Any], **hints: Any) -> str | None:
        return LEDGER if model._meta.app_label in _APPS else None

    def allow_migrate(self, db: str, app_label: str, **hints: Any) -> bool:
        # One database has one record of migrations: a table left out for one alias would count as made for the other.
        return settings.ONE_DATABASE or (app_label in _APPS) == (db == LEDGER)
