"""Where a webhook may lead: checked when it is saved, and again at every connection.

A webhook is a request that the bus makes on a person's behalf, so it must not reach what only the bus can reach. The
check at save catches mistakes; the one at the connection is the one that holds, because a name may point elsewhere by
then, and because it is the very address checked that gets connected to.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from ipaddress import ip_address
from urllib.parse import urlsplit

import httpx
import structlog
from django.conf import settings

from engine.core.error_text import words_of
from engine.core.errors import BadInput
from engine.core.http_client import LookUps, Resolve, check_host, resolve, timed_client
from hbus_console.public_addresses import is_public

MAX_URL = 500
#: Seconds for which a person who saves an address waits for its name to be looked up.
LOOK_UP_S = 5.0

_log = structlog.get_logger(__name__)


class ForbiddenTarget(BadInput):
    """The webhook leads to an address that lies inside."""


def check_url(url: object, *, look_up: Resolve = resolve) -> str:
    """The URL, trimmed; raises :class:`BadInput` (field ``webhook_url``) unless it may be called.

    A name that does not resolve now, or not soon, is accepted: the receiver may not exist yet.
    """
    if not isinstance(url, str) or not url.strip():
        raise _refused("A webhook needs an address.", "For example https://partner.example/hooks/bookings.")
    url = url.strip()
    if len(url) > MAX_URL or any(character.isspace() or not character.isprintable() for character in url):
        raise _refused("The address holds blanks or is too long.", f"At most {MAX_URL} characters.")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
        # What would be refused at the call is refused now.
        check_host(url)
    except (ValueError, httpx.InvalidURL) as error:
        raise _refused(f"The address cannot be read: {words_of(error)}.", "Write https://host/path.") from error
    if parts.scheme not in ("http", "https") or not host:
        raise _refused("A webhook is called over http or https.", "Write https://host/path.")
    if port == 0:
        raise _refused("Nobody can be called on port 0.", "Leave the port out, or write the receiver's.")
    if "@" in parts.netloc:
        raise _refused(
            "The address carries credentials, which would end up in logs.",
            "Leave them out; each call is signed with the subscription's secret.",
        )
    if parts.fragment:
        raise _refused("The part after # is never sent.", "Leave it out.")
    try:
        addresses = LookUps(look_up).find(host, port or (443 if parts.scheme == "https" else 80), LOOK_UP_S)
    except OSError:
        addresses = []
    _check_addresses(host, addresses)
    return url


def allowed_addresses(host: str, port: int, *, look_up: Resolve = resolve) -> list[str]:
    """Where a connection to ``host`` may go; raises :class:`ForbiddenTarget`, or ``OSError`` if nothing resolves."""
    addresses = look_up(host, port)
    _check_addresses(host, addresses)
    return addresses


def client(timeout_s: float, *, look_up: Resolve = resolve) -> httpx.Client:
    """A :func:`~engine.core.http_client.timed_client` that connects only to addresses that were checked."""
    return timed_client(
        timeout_s,
        look_up=partial(allowed_addresses, look_up=look_up),
        ssl_context=httpx.create_ssl_context(trust_env=False),
    )


def _check_addresses(host: str, addresses: Iterable[str]) -> None:
    if settings.HBUS_WEBHOOK_PRIVATE:
        return
    for address in addresses:
        if not is_public(address):
            # Who may write an address would else have a resolver for the names inside.
            _log.warning("inner address refused", host=host, address=address)
            raise ForbiddenTarget(
                f"{host} {'is' if _is_literal(host) else 'leads to what is'} not a public address.",
                remedy="Use a public address, or allow inner ones for the whole installation with "
                "HBUS_WEBHOOK_PRIVATE=1.",
                field="webhook_url",
            )


def _is_literal(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _refused(what: str, remedy: str) -> BadInput:
    return BadInput(what, remedy=remedy, field="webhook_url")
