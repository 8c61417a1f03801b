"""A person with an account, a runner under a clock, and a kind that works through a list of words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from engine.core.clock import ManualClock, to_datetime
from engine.core.errors import BadInput
from engine.core.pacing import Pacing
from engine.core.subject import Subject
from hbus_console.access.permissions import Actor, allows
from hbus_console.accounts.actors import actor_of
from hbus_console.accounts.models import User
from hbus_console.deadletters.feature import DEAD_LETTER_REDRIVE
from hbus_console.operations import kinds
from hbus_console.operations.kinds import Do, Item, Plan, Result, Sample, Step, Task
from hbus_console.operations.runner import OperationRunner
from tests.hbus_console.deadletters.conftest import facts, make_letter, subscription

__all__ = ["facts", "make_letter", "subscription"]

MakeUser = Callable[..., Actor]


class Words:
    """Works through ``spec["words"]`` on the topic ``booking.changed``; ``break`` names what it breaks at."""

    name = "words"
    verb = "Say"
    action = DEAD_LETTER_REDRIVE
    effect = "Each word is said. It cannot be unsaid."
    did = "said"
    died = "died again"
    rate_per_s = 0
    works_on = "message"
    destructive = False
    facets = ()

    def __init__(self) -> None:
        #: How many words there are to say; ``None``: as many as were given.
        self.left: int | None = None
        #: The one namespace that it says it touches; empty: there may be several.
        self.within = "booking.changed"
        #: What it says it has still to come to; ``None``: that it cannot tell.
        self.still: dict[str, int] | None = None
        self.held_to: Pacing | None = None
        #: The operations it was told to let go of.
        self.let_gone: list[int] = []
        self.broken: dict[str, Exception] = {}
        self.looking: Callable[[], None] = lambda: None
        self.during: Callable[[], None] = lambda: None

    def choice_url(self, spec: Mapping[str, Any]) -> str:
        return "/words/"

    def check(self, actor: Actor, spec: Mapping[str, Any], horizon: int | None = None) -> dict[str, Any]:
        if not isinstance(spec.get("words"), list):
            raise BadInput("words is no list.", field="spec.words")
        return {"words": spec["words"]}

    def namespace(self, spec: Mapping[str, Any]) -> str:
        return self.within

    def title(self, spec: Mapping[str, Any]) -> str:
        return f"Say {len(spec['words'])} words"

    def plan(self, actor: Actor, spec: Mapping[str, Any]) -> Plan:
        samples = [Sample(Subject("message", "booking.changed", word), to_datetime(0)) for word in spec["words"][:5]]
        total = len(spec["words"]) if self.left is None else self.left
        return Plan(total, samples, obstacle="It may not be said." if "never" in spec["words"] else "")

    def pacing(self, actor: str, spec: Mapping[str, Any]) -> Pacing | None:
        return self.held_to

    def ahead(
        self, spec: Mapping[str, Any], cursor: Mapping[str, Any], scopes: Sequence[str]
    ) -> Mapping[str, int] | None:
        return self.still

    def let_go(self, operation_id: int) -> None:
        self.let_gone.append(operation_id)

    def look(self, task: Task, limit: int) -> Do:
        self.looking()
        return lambda: self._step(task, limit)

    def _step(self, task: Task, limit: int) -> Step:
        at = int(task.cursor.get("at", 0))
        words = task.spec["words"][at : at + limit]
        items = []
        for index, word in enumerate(words, start=at):
            if word in self.broken:
                raise self.broken[word]
            allowed = allows(task.actor, self.action, "booking.changed")
            result = Result.SKIPPED if word == "skip" else Result.DONE if allowed else Result.FAILED
            items.append(Item(str(index), Subject("message", "booking.changed", word), result))
        self.during()
        finished = at + len(words) == len(task.spec["words"])
        return Step(items, {"at": at + len(words)}, finished, scanned=len(words), note=f"{at + len(words)} said")


@pytest.fixture
def words(monkeypatch: pytest.MonkeyPatch) -> Words:
    kind = Words()
    monkeypatch.setitem(kinds._kinds(), kind.name, kind)
    return kind


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def runner(clock: ManualClock) -> OperationRunner:
    return OperationRunner(clock)


@pytest.fixture
def make_user(db: None) -> MakeUser:
    def make(role: str = "operator", scope: str = "*", name: str = "olga") -> Actor:
        user = User.objects.create(username=name)
        user.grants.create(role=role, scope=scope)
        return actor_of(user)

    return make


@pytest.fixture
def operator(make_user: MakeUser) -> Actor:
    return make_user()
