"""Settings of a job that are written in a language of their own: schedules, zones, exclusions, what it runs after."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from engine.core.errors import BadInput
from engine.cron.exclusions import compile_exclusions
from engine.cron.expression import BadExpression
from engine.cron.expression.offsets import zone
from hbus_console.drafts.setting import Clean, Lines, Text
from hbus_console.jobs.calendars import read_calendars
from hbus_console.jobs.following import read_after, written
from hbus_console.jobs.known import schedule_said
from hbus_console.jobs.tags import read_tags


@dataclass(frozen=True)
class ScheduleText(Text):
    """An expression, which is read in its zone and by its policies."""

    @property
    def hangs_on_others(self) -> bool:
        return True

    def check(self, value: Any, clean: Clean) -> str:
        spec = super().check(value, clean)
        try:
            schedule_said(clean["name"], {**clean, "schedule": spec})
        except BadExpression as error:
            raise BadInput(error.what, remedy=error.remedy, field=self.name) from error
        return spec


@dataclass(frozen=True)
class ExcludedText(Lines):
    """Days and times at which nothing runs."""

    rows: int = 3

    def check(self, value: Any, clean: Clean) -> str:
        text = super().check(value, clean)
        compile_exclusions(text)
        return text


@dataclass(frozen=True)
class AfterText(Lines):
    """Jobs that it runs after. Whether they are there is asked when it is saved."""

    def check(self, value: Any, clean: Clean) -> str:
        return written(read_after(super().check(value, clean)))


@dataclass(frozen=True)
class TagsText(Text):
    """Tags, with spaces between them."""

    def check(self, value: Any, clean: Clean) -> str:
        return " ".join(read_tags(super().check(value, clean)))


@dataclass(frozen=True)
class CalendarsText(Text):
    """Names of calendars, with spaces between them. What they say is asked when all settings are checked."""

    def check(self, value: Any, clean: Clean) -> str:
        return " ".join(read_calendars(super().check(value, clean)))


@dataclass(frozen=True)
class ZoneName(Text):
    """A zone of the IANA database."""

    def check(self, value: Any, clean: Clean) -> str:
        named = super().check(value, clean)
        return zone(named).name
