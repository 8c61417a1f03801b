"""Policies of a team, and a store whose keys belong to one test."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hbus_console.access.permissions import SYSTEM, Actor
from hbus_console.quotas.models import QuotaPolicy
from hbus_console.quotas.services.draft import PolicyDraft
from hbus_console.quotas.services.policies import create_policy
from hbus_console.teams.models import Team
from tests.hbus_console.topics.conftest import calling, committed, own_keys, signed_in, team, told

__all__ = ["calling", "committed", "own_keys", "signed_in", "team", "told"]

#: Makes a policy of the team Reservations: ``make("everyone", 100, 200, tenant="…")``.
MakePolicy = Callable[..., QuotaPolicy]


@pytest.fixture(autouse=True)
def _own_store(own_keys: None) -> None:
    """Books are numbered anew with each test: under shared keys one would meet those of others."""


@pytest.fixture
def make_policy(team: Team) -> MakePolicy:
    def make(name: str, limit: float, burst: float = 0.0, *, by: Actor = SYSTEM, **more: Any) -> QuotaPolicy:
        return create_policy(by, PolicyDraft(name, team.name, limit, burst or limit, **more))

    return make
