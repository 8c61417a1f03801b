"""Remote control of consumer workers: ``app.control.broadcast("hbus_status")`` and its sisters.

A command runs in the worker's main loop and only asks the host, which acts in its own threads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from celery.worker.control import control_command, inspect_command

from hbus_console.consumers.host import Key, SubscriptionHost


class Steered(Protocol):
    """What remote control needs of the role it steers."""

    @property
    def host(self) -> SubscriptionHost: ...

    def report(self) -> dict[str, Any]: ...


_attached: list[Steered] = []


def attach(role: Steered) -> None:
    """Let remote control reach the role of this process."""
    _attached[:] = [role]


def detach(role: Steered) -> None:
    if role in _attached:
        _attached.remove(role)


def chooser(topic: str = "", group: str = "") -> Callable[[Key], bool]:
    """Matches subscriptions by topic and group; an empty word matches all."""
    return lambda key: (not topic or key[0] == topic) and (not group or key[1] == group)


@inspect_command()
def hbus_status(state: Any, **_: Any) -> dict[str, Any]:
    """Report the subscriptions that run in this worker."""
    return _attached[0].report() if _attached else _not_hosting()


@control_command(args=[("topic", str), ("group", str)], signature="[topic [group]]")
def hbus_pause(state: Any, topic: str = "", group: str = "", **_: Any) -> dict[str, Any]:
    """Hold subscriptions on this worker alone."""
    return _act("paused", lambda role: role.host.pause(chooser(topic, group)))


@control_command(args=[("topic", str), ("group", str)], signature="[topic [group]]")
def hbus_resume(state: Any, topic: str = "", group: str = "", **_: Any) -> dict[str, Any]:
    """End what hbus_pause or hbus_drain began on this worker."""
    return _act("resumed", lambda role: role.host.resume(chooser(topic, group)))


@control_command(args=[("topic", str), ("group", str)], signature="[topic [group]]")
def hbus_drain(state: Any, topic: str = "", group: str = "", **_: Any) -> dict[str, Any]:
    """Finish what is in hand and run subscriptions no more on this worker."""
    return _act("drained", lambda role: role.host.drain(chooser(topic, group)))


@control_command()
def hbus_reconcile(state: Any, **_: Any) -> dict[str, Any]:
    """Look at once for subscriptions that were added, changed or removed."""
    if not _attached:
        return _not_hosting()
    _attached[0].host.reconcile_soon()
    return {"ok": "looking"}


def _act(verb: str, act: Callable[[Steered], list[Key]]) -> dict[str, Any]:
    if not _attached:
        return _not_hosting()
    return {"ok": verb, "subscriptions": [list(key) for key in sorted(act(_attached[0]))]}


def _not_hosting() -> dict[str, Any]:
    return {"error": "this worker hosts no subscriptions"}
