"""The bus inside one process: every promise of the contract, nothing on disk. For users' tests and small tools."""

from engine.bus.transports.memory.transport import MemoryTransport, open_transport

__all__ = ["MemoryTransport", "open_transport"]
