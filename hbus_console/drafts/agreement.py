"""Where a model and the settings of its draft tell different things."""

from __future__ import annotations

from django.core.exceptions import FieldDoesNotExist
from django.db import models

from hbus_console.drafts.setting import Choice, Flag, JsonObject, Number, Seconds, Setting, Text, Whole
from hbus_console.drafts.settings import NEEDED, Settings

#: The columns that hold a kind of setting.
_COLUMNS: list[tuple[type[Setting], tuple[type[models.Field[object, object]], ...]]] = [
    (Whole, (models.PositiveIntegerField, models.PositiveBigIntegerField)),
    (Number, (models.FloatField,)),
    (Flag, (models.BooleanField,)),
    (Choice, (models.CharField,)),
    (Text, (models.CharField, models.TextField)),
    (Seconds, (models.JSONField,)),
    (JsonObject, (models.JSONField,)),
]


def disagreements(settings: Settings, model: type[models.Model]) -> list[str]:
    """What differs, in words; empty when each setting has its column, of its kind, with its default and words."""
    said: list[str] = []
    for name in settings.stored:
        try:
            column = model._meta.get_field(settings[name].stored_as)
        except FieldDoesNotExist:
            said.append(f"{name}: no column")
            continue
        if isinstance(column, models.Field):
            said += [f"{name}: {what}" for what in _differs(settings[name], column)]
        else:
            said.append(f"{name}: no column")
    return said


def _differs(setting: Setting, column: models.Field[object, object]) -> list[str]:
    said = []
    for kind, columns in _COLUMNS:
        if isinstance(setting, kind) and not isinstance(column, columns):
            said.append(f"{type(setting).__name__} in a {type(column).__name__}")
    if isinstance(setting, Choice) and [str(word) for word, _ in column.choices or ()] != list(setting.words):
        said.append("other words")
    if isinstance(setting, Text) and column.max_length is not None and setting.most > column.max_length:
        said.append(f"{setting.most} characters in {column.max_length}")
    # A list's column starts empty and is always written whole; None is filled in from the other settings.
    if setting.default not in (None, NEEDED) and not callable(column.default):
        default = column.get_default()
        if default != setting.default:
            said.append(f"default {default!r} instead of {setting.default!r}")
    return said
