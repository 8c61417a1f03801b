"""Structured logs: one JSON object a line, with the ids that lead from log to ledger, page and audit entry."""

from __future__ import annotations

import logging
import sys
from collections.abc import MutableMapping
from typing import Any

from django.conf import settings

from hbus_console.access import context
from hbus_console.audit.redact import redact
from hbus_console.lean import structlog


def _add_request(_: object, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    request = context.current()
    if request.request_id:
        event.setdefault("request_id", request.request_id)
        event.setdefault("correlation_id", request.correlation_id)
    return event


def _redact(_: object, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    cleaned: dict[str, Any] = redact(dict(event))
    return cleaned


def _without_traceback(record: logging.LogRecord) -> bool:
    """Of what a stranger sent, such as a host that is none of ours: anybody could fill the log with ours."""
    if record.name.startswith("django.security."):
        record.exc_info = record.exc_text = None
    return True


def configure(_: object = None) -> None:
    """Send structlog and the standard library's loggers to stderr in one form."""
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
    handler.addFilter(_without_traceback)
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
