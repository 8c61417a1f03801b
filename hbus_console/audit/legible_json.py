"""A JSON column that can be read whatever somebody wrote into it."""

from __future__ import annotations

from typing import Any

from django.db import models

#: Stands in the place of what nobody can read.
UNREADABLE = "(unreadable)"


class LegibleJSON(models.JSONField):
    """Text that is no JSON is read as :data:`UNREADABLE`, and raises nothing."""

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
        try:
            return super().from_db_value(value, expression, connection)
        except (ValueError, TypeError, RecursionError):
            return UNREADABLE

    def deconstruct(self) -> Any:
        name, _, args, kwargs = super().deconstruct()
        return name, "django.db.models.JSONField", args, kwargs
