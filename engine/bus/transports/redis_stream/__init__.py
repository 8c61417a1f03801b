"""Topics as Redis Streams, with leases, retries, dead letters and priorities on top: see ``docs/transports.md``."""

from engine.bus.transports.redis_stream.transport import RedisStreamTransport, open_transport

__all__ = ["RedisStreamTransport", "open_transport"]
