"""Sends the ledger's tables to their own database; see DATABASES in the settings."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from django.apps import apps
from django.conf import settings

from hbus_console.registry.declaration import ALL_MODELS
from hbus_console.registry.loading import by_app

LEDGER = "ledger"


class LedgerRouter:
    """By what the features declare as ``ledger_models``."""

    def db_for_read(self, model: type[Any], **hints: Any) -> str | None:
        return LEDGER if _lies_there(model) else None

    def db_for_write(self, model: type[Any], **hints: Any) -> str | None:
        return LEDGER if _lies_there(model) else None

    def allow_migrate(self, db: str, app_label: str, model_name: str | None = None, **hints: Any) -> bool:
        # One database has one record of migrations: a table left out for one alias would count as made for the other.
        return settings.ONE_DATABASE or _named(app_label, model_name or "") == (db == LEDGER)


def _lies_there(model: type[Any]) -> bool:
    # A table between two models has one that Django made, and lies where that one lies which asked for it.
    meta = (model._meta.auto_created or model)._meta
    return _named(meta.app_label, meta.model_name)


def _named(label: str, model_name: str) -> bool:
    named = _models().get(label, frozenset())
    return ALL_MODELS in named or model_name in named


@cache
def _models() -> Mapping[str, frozenset[str]]:
    """By the label of its app, the names of a feature's models as Django spells them."""
    named = {
        app: frozenset(map(str.lower, feature.ledger_models)) for app, feature in by_app() if feature.ledger_models
    }
    return {config.label: named[config.name] for config in apps.get_app_configs() if config.name in named}
