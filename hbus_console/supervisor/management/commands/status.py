"""``manage.py status``: which roles run, how long, how often they had to be restarted, and what they need."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import redis
from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser

from engine.core.clock import SystemClock
from engine.core.errors import ConfigurationError
from hbus_console.command_needs import typed
from hbus_console.nodes.stamps import Node, read_nodes
from hbus_console.supervisor.status import ProcessLine, Status, collect
from hbus_console.wiring import store

_COLUMNS = ("role", "pid", "state", "uptime", "restarts", "memory", "clock", "address", "last error")


class Command(BaseCommand):
    help = "Show the roles of this installation; exit 1 if something that should run does not."
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="one JSON object on one line")

    def handle(self, *_: Any, **options: Any) -> None:
        status = collect(Path(settings.STATE), _stamped(), SystemClock(), clock_alarm_ms=settings.CLOCK_ALARM_MS)
        if options["json"]:
            self.stdout.write(json.dumps(status.as_dict()))
        else:
            self.stdout.write(_table(status))
        if not status.healthy:
            sys.exit(1)


def _stamped() -> list[Node]:
    """The nodes the store knows of; none when it does not answer, which the store's own line then tells."""
    try:
        return read_nodes(store.client(), settings.HBUS_PREFIX, SystemClock())
    except (redis.RedisError, ConfigurationError):
        return []


def _table(status: Status) -> str:
    if not status.lines:
        return f"hbus does not run on {settings.STATE}. Start it with `{typed('make run')}`."
    rows = [_COLUMNS, *(_cells(line) for line in status.lines)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_COLUMNS) - 1)]
    lines = [
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]]) for row in rows
    ]
    footer = f"{_size(status.memory)} in all · console {status.url} · store {status.store}"
    return "\n".join([*lines, footer])


def _cells(line: ProcessLine) -> tuple[str, ...]:
    name = line.role if line.slot == "0" else f"{line.role}-{line.slot}"
    return (
        f"{name}@{line.host}" if line.host else name,
        str(line.pid or "–"),
        line.state,
        _duration(line.uptime_s),
        str(line.restarts),
        _size(line.memory),
        _clock(line),
        line.address or "–",
        _error(line),
    )


def _error(line: ProcessLine) -> str:
    """What is over is told with its age, so that nobody takes it for what is."""
    if not line.last_error_age_s:
        return line.last_error or "–"
    return f"{line.last_error} ({_duration(line.last_error_age_s)} ago)"


def _clock(line: ProcessLine) -> str:
    if line.clock is None:
        return "–"
    return f"{line.clock.words} (set it right)" if line.clock_wrong else line.clock.words


def _duration(seconds: int) -> str:
    if seconds < 60:
        return f"{seconds} s" if seconds else "–"
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} m" if hours else f"{minutes} m {rest:02d} s"


def _size(number: int) -> str:
    return f"{number / 1024**2:.0f} MB" if number else "–"
