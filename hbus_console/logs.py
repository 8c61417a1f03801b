"""Structured logs: one JSON object a line, with the ids that lead from log to ledger, page and audit entry."""

from __future__ import annotations

import logging
import sys
from collections.abc import MutableMapping, Sequence
from typing import Any

import msgspec
import structlog

from engine.core.facts import KINDS, Fact, FactSink
from hbus_console.audit import context
from hbus_console.audit.redact import redact

#: Facts that get a line each; the others are counted, and lie in the ledger. ``HBUS_LOG_FACTS=all`` logs every one.
_LEVELS = {
    "retried": logging.INFO,
    "expired": logging.INFO,
    "redriven": logging.INFO,
    "replayed": logging.INFO,
    "discarded": logging.INFO,
    "store_back": logging.INFO,
    "lease_lost": logging.WARNING,
    "retention_held": logging.WARNING,
    "facts_dropped": logging.WARNING,
    "dead": logging.ERROR,
    "publish_failed": logging.ERROR,
    "group_lost": logging.ERROR,
    "store_lost": logging.ERROR,
}
#: Of one batch (at most a thousand facts) so many lines of one kind; the rest is one line that says how many.
_LINES = 100


class LoggingSink:
    """A fact sink that writes a JSON line for each fact that matters, then passes the batch on to ``sink``.

    The line carries the ids that lead on to ledger, page and trace. A batch offered again is logged once.
    """

    def __init__(self, sink: FactSink, *, everything: bool = False) -> None:
        self._sink = sink
        self._everything = everything
        self._logged: Sequence[Fact] | None = None
        self._log = structlog.get_logger("hbus.facts")

    def write(self, facts: Sequence[Fact]) -> None:
        # Logged first: a lost store must be told while it is lost.
        if facts is not self._logged:
            self._tell(facts)
            self._logged = facts
        self._sink.write(facts)
        self._logged = None

    def _tell(self, facts: Sequence[Fact]) -> None:
        if not self._everything and _LEVELS.keys().isdisjoint({fact.kind for fact in facts}):
            return
        told: dict[str, int] = {}
        for fact in facts:
            level = _LEVELS.get(fact.kind, logging.INFO if self._everything else None)
            if level is None:
                continue
            told[fact.kind] = told.get(fact.kind, 0) + 1
            if self._everything or told[fact.kind] <= _LINES:
                self._log.log(level, fact.kind, **_fields(fact))
        for kind, number in told.items():
            if not self._everything and number > _LINES:
                self._log.warning(f"{kind}_suppressed", suppressed=number - _LINES, of=number, meaning=KINDS[kind])


def _fields(fact: Fact) -> dict[str, Any]:
    """What is known about ``fact``, without its kind and without what does not apply."""
    return {name: value for name, value in msgspec.structs.asdict(fact).items() if value and name != "kind"}


def _add_request(_: object, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    request = context.current()
    if request.request_id:
        event.setdefault("request_id", request.request_id)
        event.setdefault("correlation_id", request.correlation_id)
    return event


def _redact(_: object, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    cleaned: dict[str, Any] = redact(dict(event))
    return cleaned


def configure(_: object = None) -> None:
    """Send structlog and the standard library's loggers to stderr in one form."""
    from django.conf import settings

    shared: list[structlog.types.Processor] = [
        structlog.contextvars.merge_contextvars,
        _add_request,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        _redact,
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.JSONRenderer(ensure_ascii=False, default=str),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(settings.LOG_LEVEL)
    # httpx logs every URL it calls, with whatever secret a webhook carries in its query.
    for noisy in ("httpx", "httpcore", "asyncio", "tornado", "uvicorn.access"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
