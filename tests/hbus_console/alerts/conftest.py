"""A clock, a topic with a reader, and what the keeper would have stored about them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from engine.core.clock import ManualClock
from hbus_console.access.permissions import SYSTEM
from hbus_console.alerts import services
from hbus_console.alerts.evaluation import AlertEvaluator
from hbus_console.alerts.models import Alert, Channel, Rule
from hbus_console.alerts.services import RuleDraft
from hbus_console.messages.models import LagSample
from hbus_console.subscriptions.models import Subscription
from tests.hbus_console.accounts.conftest import admin, admin_actor, make_user
from tests.hbus_console.kept import kept
from tests.hbus_console.topics.conftest import calling, own_keys, signed_in
from tests.hbus_console.ui.conftest import subscription, topic

__all__ = ["admin", "admin_actor", "calling", "make_user", "own_keys", "signed_in", "subscription", "topic"]

Sample = Callable[..., None]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def reader(db: None) -> Subscription:
    """``billing`` on ``booking.created``, watched since long ago."""
    return subscription(topic("booking.created"), "billing")


class Watch:
    """An evaluator whose rounds a test counts. Between two of them ten seconds pass."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.evaluator = AlertEvaluator(clock=clock)

    def sample(
        self,
        waiting: int | None,
        *,
        oldest_s: float = 0,
        parked: int = 0,
        topic: str = "booking.created",
        group: str = "billing",
    ) -> None:
        """As the lag sampler would."""
        now_ms = self.clock.now_ms()
        LagSample.objects.create(
            at_ms=now_ms,
            topic=topic,
            subscription=group,
            waiting=waiting,
            in_flight=0,
            retrying=0,
            parked=parked,
            oldest_ms=now_ms - round(oldest_s * 1000) if oldest_s else None,
        )

    def go(self, waiting: int | None, rounds: int = 1) -> list[str]:
        """So many rounds with this lag; returns the states of all alerts afterwards."""
        for _ in range(rounds):
            self.clock.advance(10)
            if waiting is not None:
                self.sample(waiting)
            kept(self.clock.now_ms())
            self.evaluator.tick()
        return self.states()

    def states(self) -> list[str]:
        return list(Alert.objects.order_by("pk").values_list("state", flat=True))


@pytest.fixture
def watch(clock: ManualClock, reader: Subscription) -> Watch:
    """Watching for longer than evidence needs to settle; nothing fires yet."""
    found = Watch(clock)
    found.go(0, rounds=8)
    return found


def rule(kind: str = "lag", threshold: float = 100, **fields: object) -> Rule:
    """A rule over everything that ends as soon as it is better."""
    draft = {"name": f"{kind} {threshold:g}", "clear_s": 0, **fields}
    return services.create_rule(SYSTEM, RuleDraft(kind=kind, threshold=threshold, **draft))  # type: ignore[arg-type]


def webhook(name: str = "on-call", url: str = "https://on-call.example/in") -> Channel:
    return Channel.objects.create(name=name, kind="webhook", url=url, secret="whsec_hush")
