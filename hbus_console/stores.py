"""What the settings say of stores, read strictly: the further ones by name, and the one that is Celery's broker."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from engine.core.errors import ConfigurationError

if TYPE_CHECKING:
    from engine.core.store import StoreAddress

#: With ``redis_stream@`` before it, it must fit into a topic's row.
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,18}")


def named_stores(text: str) -> dict[str, str]:
    """``name=address`` with blanks between them. Raises ``ConfigurationError`` for ``HBUS_STORES``."""
    found: dict[str, str] = {}
    for number, pair in enumerate(text.split(), start=1):
        name, is_one, url = pair.partition("=")
        if not is_one or not _NAME.fullmatch(name) or name in found:
            # Not quoted: a password may be in it.
            raise ConfigurationError(
                f"Entry {number} of HBUS_STORES has no name of its own.",
                remedy="Write busy=redis://…, with a name of 1 to 19 small letters, digits and hyphens, and a blank "
                "between two entries.",
                field="HBUS_STORES",
            )
        # It loads redis-py, which whoever names no further store does not need here.
        from engine.core.store import StoreAddress

        StoreAddress.parse(url, field="HBUS_STORES")
        found[name] = url
    return found


@dataclass(frozen=True)
class Broker:
    """What Celery must know of its broker."""

    url: str = field(repr=False)
    #: Transport options beside the usual ones.
    options: dict[str, Any] = field(default_factory=dict, repr=False)
    use_ssl: dict[str, Any] | None = None

    @property
    def reading(self) -> str:
        """The transport of Kombu by which workers read from it, by its dotted name: one that junk does not end."""
        kind = "Sentinel" if self.url.startswith("sentinel://") else ""
        return f"hbus_console.broker_transport.Checked{kind}Transport"


def broker_of(store_url: str, broker_url: str = "") -> Broker:
    """``broker_url``, or the store itself. Raises ``ConfigurationError`` for ``BROKER_URL`` where that is a cluster."""
    url = broker_url or store_url
    if url.startswith(("redis://", "rediss://", "unix://")) or not url:
        base, _, query = url.partition("?")
        words = [word for word in query.split("&") if word and not word.startswith("replicas=")]
        if url.startswith("rediss://") and not any(word.startswith("ssl_cert_reqs=") for word in words):
            # Kombu would trust any certificate.
            words.append("ssl_cert_reqs=required")
        return Broker(f"{base}?{'&'.join(words)}" if words else base)
    # It loads redis-py, which an address that Celery understands by itself does not need.
    from engine.core.store import StoreAddress, StoreKind

    address = StoreAddress.parse(url, field="BROKER_URL" if broker_url else "REDIS_URL")
    if address.kind is StoreKind.CLUSTER:
        raise ConfigurationError(
            "The store is a cluster, and Celery cannot use a cluster as its broker.",
            remedy="Point BROKER_URL at a Redis or Valkey of its own (redis:// or sentinel://); it carries only what "
            "steers the consumers, and keeps nothing.",
            field="BROKER_URL",
        )
    return _sentinel(address)


def job_broker(url: str) -> Broker:
    """The broker that jobs send tasks of Celery to, if any. Raises ``ConfigurationError`` for ``HBUS_JOB_BROKER``."""
    scheme = url.partition("://")[0]
    if not url:
        return Broker("")
    if scheme in ("amqp", "amqps") and _has_host(url):
        # No store's address needs it.
        import ssl

        # Of itself Kombu would trust any certificate of any host; None is the host of the address.
        tls = {"cert_reqs": ssl.CERT_REQUIRED, "server_hostname": None}
        return Broker(url, {"confirm_publish": True}, tls if scheme == "amqps" else None)
    if scheme in ("redis", "rediss", "sentinel", "sentinels"):
        # It loads redis-py, which whoever names no such broker does not need here.
        from engine.core.store import StoreAddress

        # Refused here, by name and without quoting, and not by Celery when the first task is sent.
        StoreAddress.parse(url, field="HBUS_JOB_BROKER")
        return broker_of("", url)
    raise ConfigurationError(
        "HBUS_JOB_BROKER is no address of a broker that jobs can send to.",
        remedy="Write redis://, rediss://, sentinel://host,host/primary-name, amqp:// or amqps://.",
        field="HBUS_JOB_BROKER",
    )


def _has_host(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _sentinel(address: StoreAddress) -> Broker:
    options = address.options
    user, password = (quote(str(options.get(name, "")), safe="") for name in ("username", "password"))
    login = f"{user}:{password}@" if user or password else ""
    places = [f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in address.places]
    first = f"sentinel://{login}{places[0]}/{address.database}"
    tls = {name: value for name, value in options.items() if name.startswith("ssl_")}
    sentinel = {name: value for name, value in address.sentinel_options.items() if name != "connection_class"}
    if address.encrypted:
        sentinel["ssl"] = True
    return Broker(
        ";".join([first, *(f"sentinel://{place}" for place in places[1:])]),
        {"master_name": address.primary_name, "sentinel_kwargs": {"socket_timeout": 1.0, **sentinel}},
        {"ssl_cert_reqs": "required", **tls} if address.encrypted else None,
    )
