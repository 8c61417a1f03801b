"""Topics on NSQ, with what nsqd cannot keep laid beside it in the store: see ``docs/transports.md``."""

from engine.bus.transports.nsq.transport import NsqTransport, open_transport

__all__ = ["NsqTransport", "open_transport"]
