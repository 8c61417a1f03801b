"""What the kinds of work are called in columns."""

from __future__ import annotations

from enum import StrEnum


class WorkName(StrEnum):
    FUNCTION = "function"
    PUBLISH = "publish"
    HTTP = "http"
    COMMAND = "command"
    SPARK = "spark"
    CELERY = "celery"
    #: Nothing is done here: it runs somewhere else, and pings tell of it.
    ELSEWHERE = "elsewhere"
