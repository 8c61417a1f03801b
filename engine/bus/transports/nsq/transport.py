"""The NSQ transport: publishing, and the doors to receivers and the admin side."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence

from engine.bus.config import BusConfig
from engine.bus.transport import Admin, Capabilities, Outcome, Outgoing, Receiver
from engine.bus.transports.nsq.admin import NsqAdmin
from engine.bus.transports.nsq.copies import Copies, Keep
from engine.bus.transports.nsq.leases import DeliveryLeases
from engine.bus.transports.nsq.loop import EventLoopThread
from engine.bus.transports.nsq.names import TopicNames, longest_topic
from engine.bus.transports.nsq.nodes import Nodes
from engine.bus.transports.nsq.publishing import Publishing
from engine.bus.transports.nsq.receiver import NsqReceiver
from engine.bus.transports.nsq.side_store import SideStore
from engine.core.clock import Clock
from engine.core.errors import ConfigurationError, Unavailable
from engine.core.numbers import whole

#: The largest message a stock nsqd takes (its ``--max-msg-size``).
MAX_BYTES = 1024 * 1024


class NsqTransport:
    """A topic is a topic of nsqd, a group a channel; the store holds leases, retries, dead letters and keys.

    ``config.url`` is that store; ``config.options`` name the nsqds: ``nsqd`` (their HTTP addresses) or ``nsqlookupd``,
    words separated by commas, ``max_bytes`` if they take larger messages than 1 MiB, and ``keep``, see
    :class:`~engine.bus.transports.nsq.copies.Keep`. Leases run by the clocks of
    nsqd and the store; a clock that is injected is not read. Thread-safe; a forked child needs one of its own.
    """

    name = "nsq"

    def __init__(self, config: BusConfig) -> None:
        self._prefix = config.prefix
        self._nodes = Nodes(config.options)
        self._side_store = SideStore(config.url)
        self._loop = EventLoopThread()
        self._capabilities = Capabilities(
            durable=True,
            browse=False,
            seek=False,
            priority=False,
            idempotent_publish=True,
            ordered=False,
            pause=True,
            max_bytes=_max_bytes(config),
            min_bytes=1,
            longest_topic=longest_topic(config.prefix),
            exact_keys=False,
            beside=frozenset({"idempotent_publish", "pause", "leases", "retries", "dead"}),
        )
        self._keep = Keep.parse(config.options.get("keep", ""))
        copies = Copies(self._side_store, self._keep)
        self._publishing = Publishing(self._side_store, self._nodes, copies, self._capabilities.max_bytes)
        self._admin = NsqAdmin(self._side_store, self._nodes, config.prefix)
        self._names: dict[str, TopicNames] = {}
        self._leases: dict[tuple[str, str], DeliveryLeases] = {}
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"NsqTransport({self._nodes.address}, prefix={self._prefix!r})"

    @property
    def capabilities(self) -> Capabilities:
        return self._capabilities

    @property
    def admin(self) -> Admin:
        return self._admin

    def publish(self, topic: str, batch: Sequence[Outgoing]) -> list[Outcome]:
        return self._publishing.publish(self._topic(topic), batch)

    def publish_chunks(self, topic: str, chunks: Iterator[Sequence[Outgoing]]) -> Iterator[list[Outcome]]:
        return self._publishing.publish_chunks(self._topic(topic), chunks)

    def claim(self, topic: str, batch: Sequence[Outgoing]) -> list[Outcome]:
        return self._publishing.claim(self._topic(topic), batch)

    def receiver(self, topic: str, group: str, *, consumer: str, lease_ms: int, partition: int = 0) -> Receiver:
        with self._lock:
            leases = self._leases.setdefault((topic, group), DeliveryLeases())
        names = self._topic(topic).group(group)
        return NsqReceiver(
            self._side_store,
            self._loop,
            self._nodes,
            names,
            leases,
            consumer=consumer,
            lease_ms=lease_ms,
            keep=self._keep,
        )

    def ping(self) -> float:
        started = time.perf_counter()
        trouble: Unavailable | None = None
        for node in self._nodes.all():
            try:
                node.http.ping()
            except Unavailable as error:
                trouble = error
            else:
                return time.perf_counter() - started
        raise trouble or Unavailable("There is no nsqd.", remedy="Start one, and let it tell nsqlookupd.")

    def close(self) -> None:
        self._loop.close()
        self._nodes.close()
        self._side_store.close()

    def _topic(self, topic: str) -> TopicNames:
        names = self._names.get(topic)
        if names is None:
            names = self._names[topic] = TopicNames(self._prefix, topic)
        return names


def _max_bytes(config: BusConfig) -> int:
    text = config.options.get("max_bytes") or str(MAX_BYTES)
    number = whole(text)
    if number is None or not 1024 <= number <= 64 * 1024 * 1024:
        raise ConfigurationError(
            f"max_bytes is {text!r}.", remedy="Give the nsqds' --max-msg-size in bytes.", field="NSQD_MAX_BYTES"
        )
    return number


def open_transport(config: BusConfig, clock: Clock | None = None) -> NsqTransport:
    """Open the transport; no connection is made before the first command."""
    return NsqTransport(config)
