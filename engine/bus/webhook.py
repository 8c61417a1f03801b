"""The webhook handler: a subscription that needs no code, only an address."""

from __future__ import annotations

from urllib.parse import urlsplit

import httpx

from engine.bus.context import Context
from engine.bus.errors import RetryLater, Unrecoverable
from engine.bus.message import Message, encode
from engine.core.clock import Clock, SystemClock, to_datetime
from engine.core.error_text import words_of
from engine.core.errors import BadInput
from engine.core.http_client import UncallableAddress, timed_client
from engine.core.http_told import told_failure, told_status
from engine.core.redaction import shown_url
from engine.core.signing import PASSING, SIGNATURE_HEADER, retry_after_s, sign

CONTENT_TYPE = "application/cloudevents+json"


class WebhookFailed(Exception):
    """The receiver did not take the message; it is tried again."""


class WebhookHandler:
    """POSTs each message's envelope to ``url``, signed with ``secret``. Thread-safe.

    A 2xx settles. 410 and other 4xx are final, except 408, 425 and 429; everything else is tried again, not before
    the time ``Retry-After`` asks for, or a day. Redirects are not followed and no proxy is used. ``timeout_s`` bounds
    the whole call, from the look-up of the name to the answer. The body of the answer is neither read nor logged, and
    errors tell the address without its secrets. A ``client`` of one's own decides where connections may go and brings
    its own timeout; the handler closes it.
    """

    def __init__(
        self,
        url: str,
        secret: str,
        timeout_s: float = 10.0,
        *,
        client: httpx.Client | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._url = check_url(url)
        self._shown = shown_url(url)
        if not secret:
            raise BadInput(
                "A webhook needs a secret to sign with.", remedy="Generate one and share it.", field="secret"
            )
        if not 0 < timeout_s <= 300:
            raise BadInput("timeout_s must be more than 0 and at most 300.", remedy="10 is usual.", field="timeout_s")
        self._secret = secret.encode()
        self._clock = clock or SystemClock()
        self._client = client or timed_client(timeout_s, clock=self._clock)

    def __repr__(self) -> str:
        return f"WebhookHandler({self._shown})"

    def __call__(self, message: Message, context: Context) -> None:
        body = encode(message)
        headers = {
            "Content-Type": CONTENT_TYPE,
            SIGNATURE_HEADER: sign(self._secret, self._clock.now_ms() // 1000, body),
            "X-Hbus-Topic": context.topic.encode("ascii", "backslashreplace").decode(),
            "X-Hbus-Subscription": context.group.encode("ascii", "backslashreplace").decode(),
            "X-Hbus-Attempt": str(context.attempt),
            "traceparent": str(context.trace),
        }
        try:
            # Streamed, so that the answer's body is never read.
            with self._client.stream("POST", self._url, content=body, headers=headers) as response:
                self._judge(response)
        except UncallableAddress as error:
            raise Unrecoverable(f"{self._shown} is not called: {words_of(error)}") from None
        except httpx.HTTPError as error:
            raise WebhookFailed(f"{self._shown}: {told_failure(error)}") from None

    def close(self) -> None:
        """Close idle connections."""
        self._client.close()

    def _judge(self, response: httpx.Response) -> None:
        status = response.status_code
        if 200 <= status < 300:
            return
        said = f"{self._shown} answered {told_status(status)}"
        if 400 <= status < 500 and status not in PASSING:
            raise Unrecoverable(said)
        wait_s = retry_after_s(response.headers.get("Retry-After", ""), to_datetime(self._clock.now_ms()))
        if wait_s is not None:
            raise RetryLater(wait_s, f"{said} and asked to be tried again in {wait_s:g} s")
        raise WebhookFailed(said)


def check_url(url: str) -> str:
    """``url`` if a webhook may go there: http or https, a host, and no credentials in it."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        httpx.URL(url)
    except (ValueError, httpx.InvalidURL):
        # Not chained: what cannot be parsed may quote a password.
        usable = False
    if not usable:
        raise BadInput("A webhook's address is an http or https URL.", remedy="Write https://….", field="url")
    if parts.username is not None or parts.password is not None:
        raise BadInput(
            "The webhook's address holds credentials.", remedy="Leave them out; messages are signed.", field="url"
        )
    return url
