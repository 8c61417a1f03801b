"""The worker step: starts the subscription host with the worker and drains it with a warm shutdown."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from celery import bootsteps, signals
from celery.exceptions import ImproperlyConfigured

if TYPE_CHECKING:
    from hbus_console.consumers.hosting import HostedRole


class SubscriptionHostStep(bootsteps.StartStopStep):
    """A step of the *worker*, not of its broker connection: the loss of the broker does not touch it.

    It starts after the pool (which must not fork: threads do not survive a fork) and before the worker's main loop. A
    worker that has it reads no queue of tasks.
    """

    requires = ("celery.worker.components:Pool",)
    role: HostedRole | None = None

    def include_if(self, parent: Any) -> bool:
        """Workers started for another role (jobs) host nothing."""
        return os.environ.get("HBUS_ROLE", "consumer") == "consumer"

    def create(self, parent: Any) -> None:
        if not parent.pool_cls.__module__.endswith((".thread", ".solo")):
            raise ImproperlyConfigured(
                "A consumer worker must not fork: its subscriptions run in threads. Start it with --pool threads."
            )
        # It runs no task, and a worker throws away those that it does not know: they are for workers of their own.
        queues = parent.app.amqp.queues
        queues.deselect(list(queues.consume_from))

    def start(self, parent: Any) -> None:
        # Only now are Django's apps ready, and with them models and handlers.
        from hbus_console.consumers.hosting import HostedRole

        self.role = HostedRole()
        signals.worker_shutting_down.connect(self._on_shutdown, weak=False)
        self.role.start()

    def stop(self, parent: Any) -> None:
        """Called by warm and by cold shutdown: finish what is in hand within the grace, hand back the rest."""
        if self.role is not None:
            self.role.stop()

    def terminate(self, parent: Any) -> None:
        self.stop(parent)

    def info(self, parent: Any) -> dict[str, Any]:  # type: ignore[override]
        return {} if self.role is None else self.role.report()

    def _on_shutdown(self, **_: Any) -> None:
        # Runs inside a signal handler: only raises a flag, so that no new message is taken from now on.
        if self.role is not None:
            self.role.request_stop()
