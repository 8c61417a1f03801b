"""What a project's Celery settings say to the scheduler: ``hbus_beat_url`` and its like."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from engine.core.errors import ConfigurationError
from engine.core.store import StoreAddress

_STORES = ("redis://", "rediss://")


@dataclass(frozen=True, slots=True)
class BeatSettings:
    """Times are in seconds."""

    #: Where the state of the entries lies.
    url: str = field(repr=False)
    #: Whether that is the broker itself, which then takes a task and its slot in one step.
    in_broker: bool
    #: What the state lies under: beats of one name share their entries.
    name: str
    #: How long a beat that was killed keeps its slot from the others.
    lease_s: float
    #: Slots that are later than this were missed.
    grace_s: float
    #: The last one that was missed is sent as long as it is not later than this.
    window_s: float

    @property
    def prefix(self) -> str:
        """What the keys of the entries begin with."""
        return f"hbus-beat:{self.name}"


def settings_of(app: Any) -> BeatSettings:
    """Of a Celery app. Raises ``ConfigurationError`` naming the setting."""
    conf = app.conf
    url, broker = _said(app, "hbus_beat_url"), conf.broker_write_url
    in_broker = not url
    if in_broker:
        if not isinstance(broker, str) or not broker.startswith(_STORES) or ";" in broker or conf.broker_use_ssl:
            raise ConfigurationError(
                "Beats share their slots in Redis, and the broker is not one Redis by its address alone.",
                remedy="Name one: hbus_beat_url = 'redis://host:6379/0'.",
                field="hbus_beat_url",
            )
        url = broker
    elif not isinstance(url, str):
        raise ConfigurationError("hbus_beat_url is no text.", remedy="Write redis://….", field="hbus_beat_url")
    StoreAddress.parse(url, field="hbus_beat_url").check_files(field="hbus_beat_url")
    lease_s = _seconds(app, "hbus_beat_lease", 5.0, least=1.0)
    grace_s = _seconds(app, "hbus_beat_grace", max(15.0, 3 * lease_s), least=2 * lease_s)
    deadline = conf.beat_cron_starting_deadline
    window_s = _seconds(
        app, "hbus_beat_window", 86_400.0 if deadline is None else max(grace_s, deadline), least=grace_s
    )
    name = str(_said(app, "hbus_beat_name") or app.main or "celery")
    return BeatSettings(url, in_broker, name, lease_s, grace_s, window_s)


def _said(app: Any, name: str) -> Any:
    """Also in capitals, as settings of Django and old ones of Celery are written."""
    return app.conf.first(name, name.upper())


def _seconds(app: Any, name: str, default: float, *, least: float) -> float:
    value = _said(app, name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value < math.inf:
        raise ConfigurationError(
            f"{name} is no number of seconds from {least:g} up.", remedy=f"Default: {default:g}.", field=name
        )
    return float(value)
