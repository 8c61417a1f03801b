"""An HTTP call as work, signed as webhooks are."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPMethod
from typing import Any

import httpx

from engine.core.clock import Clock, SystemClock, to_datetime, to_rfc3339
from engine.core.error_text import words_of
from engine.core.http_client import UncallableAddress
from engine.core.http_told import told_failure, told_status
from engine.core.redaction import redact_text, shown_url
from engine.core.secret_values import SecretValues
from engine.core.signing import PASSING, SIGNATURE_HEADER, retry_after_s, sign
from engine.cron.work.call import RunContext, WorkOutcome

#: What is kept of an answer, in characters, in the run's log.
ANSWER_KEPT = 500
#: Whose parameters are the query; those of the others are the body.
_WITHOUT_BODY = (HTTPMethod.GET, HTTPMethod.HEAD, HTTPMethod.DELETE)


@dataclass(frozen=True, slots=True)
class HttpTarget:
    """Where to call."""

    url: str
    method: HTTPMethod = HTTPMethod.POST
    headers: Mapping[str, str] = field(default_factory=dict)


def call_http(
    context: RunContext, target: HttpTarget, client: httpx.Client, secret: bytes, clock: Clock | None = None
) -> WorkOutcome:
    """Call it once. ``client`` decides where connections may go, and bounds the time of the call.

    2xx is success. 408, 425, 429, 5xx and what never arrived may be tried again; other answers are final. Every attempt
    of a run carries the same ``Idempotency-Key``.
    """
    call, clock = context.call, clock or SystemClock()
    has_body = target.method not in _WITHOUT_BODY
    body = json.dumps(dict(call.parameters)).encode() if has_body else b""
    headers = httpx.Headers({"Content-Type": "application/json"} if has_body else {})
    headers.update(target.headers)
    headers.update(
        {
            SIGNATURE_HEADER: sign(secret, clock.now_ms() // 1000, body),
            "Idempotency-Key": call.correlation_id,
            "X-Hbus-Job": call.job,
            "X-Hbus-Run": str(call.run),
            "X-Hbus-Slot": to_rfc3339(call.slot * 1000),
            "X-Hbus-Attempt": str(call.attempt),
        }
    )
    try:
        url = httpx.URL(target.url)
        if not has_body and call.parameters:
            url = url.copy_merge_params({name: _in_query(value) for name, value in call.parameters.items()})
        # Streamed: of an answer, however long, no more is read than is kept.
        with client.stream(target.method, url, content=body or None, headers=headers) as answer:
            began = _beginning(answer, context.secrets)
    except (UncallableAddress, httpx.InvalidURL) as error:
        said = f"{shown_url(target.url)} is not called: {words_of(error, secrets=context.secrets)}"
        return WorkOutcome(False, said, again=False)
    except httpx.HTTPError as error:
        return WorkOutcome(False, f"{shown_url(target.url)}: {told_failure(error, context.secrets)}")
    said = f"{shown_url(target.url)} answered {told_status(answer.status_code)}"
    context.log.write(f"{said}\n{began}\n")
    if answer.is_success:
        return WorkOutcome(True, summary=said)
    again = answer.status_code in PASSING or answer.is_server_error
    wait_s = retry_after_s(answer.headers.get("Retry-After", ""), to_datetime(clock.now_ms()))
    asked = "" if wait_s is None or not again else f" and asked to be tried again in {wait_s:g} s"
    return WorkOutcome(False, said + asked, again=again)


def _in_query(value: Any) -> str | list[str]:
    """A parameter as a query says it: lists by repetition, true and false in lower case, what nests as JSON."""
    if isinstance(value, list):
        return [str(_in_query(each)) for each in value]
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value)


def _beginning(answer: httpx.Response, secrets: SecretValues) -> str:
    """The first of what it says; what is packed is not unpacked, for it may be of any size then."""
    if answer.headers.get("Content-Encoding", "identity") != "identity":
        return "(its body is packed, and not shown)"
    first = next(answer.iter_raw(), b"")
    is_whole = len(first) <= 4 * ANSWER_KEPT and answer.headers.get("Content-Length") == str(len(first))
    text = first[: 4 * ANSWER_KEPT].decode("utf-8", "replace")
    # Redacted before it is cut, or half of a secret would be left.
    return redact_text(secrets.out_of(text, cut=not is_whole))[:ANSWER_KEPT]
