"""What one message costs, as measured on one machine."""

from __future__ import annotations

from pathlib import Path

import msgspec

from engine.core.errors import BadInput
from engine.core.prepared import prepared


class Costs(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Processor time in microseconds and space in bytes, each for one message of ``size`` bytes, evidence included.

    A *delivery* is one message to one group, handled by a no-op and settled.
    """

    conditions: str
    size: int
    #: Of the publishing process.
    publish_us: float
    #: Of the consuming process, a delivery.
    consume_us: float
    #: Of the store's one thread.
    store_publish_us: float
    store_consume_us: float
    #: What the store keeps of a message until retention takes it.
    stored_b: float
    #: What the store writes to its append-only file for a publish, and for a delivery.
    logged_publish_b: float
    logged_consume_b: float
    #: Of the process that books the facts of a message with one delivery, and what its database grows by.
    booked_us: float
    booked_b: float
    #: Deliveries a second by so many processes beside the store on ``cores``, to hold the arithmetic against.
    cores: int
    processes: int
    measured_rate: float


def predicted_rate(costs: Costs, processes: int, cores: int) -> float:
    """Deliveries a second by the arithmetic alone: the processes, the store's thread or the cores run out first."""
    return 1e6 / max(
        costs.consume_us / processes,
        costs.store_consume_us,
        (costs.consume_us + costs.store_consume_us) / cores,
    )


def load(path: Path) -> Costs:
    """Raises ``BadInput`` where there are none, or they are not whole."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=prepared(Costs))
    except FileNotFoundError:
        raise BadInput(f"There are no measured costs at {path.name}.", remedy="Measure them: --measure.") from None
    except msgspec.DecodeError as error:
        raise BadInput(f"{path.name} holds no costs: {error}.", remedy="Measure them anew: --measure.") from None


def save(path: Path, costs: Costs) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(costs), indent=1) + b"\n")
