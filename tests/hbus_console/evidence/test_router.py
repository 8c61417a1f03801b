"""Which tables lie in the ledger database is what the features declare of their models."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.apps import apps
from django.db import router as routers

from hbus_console.evidence import router
from hbus_console.evidence.models import Notice
from hbus_console.evidence.router import LedgerRouter
from hbus_console.messages.models import LedgerMessage
from hbus_console.registry.declaration import Feature
from hbus_console.registry.loading import by_app
from hbus_console.teams.models import Team
from hbus_console.topics.models import Topic


@pytest.fixture
def teams_are_booked(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A feature that says of one of its models that it lies with the ledger."""
    found = (*by_app(), ("hbus_console.teams", Feature("booked", ledger_models=("Team",))))
    router._models.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(router, "by_app", lambda: found)
        yield
    router._models.cache_clear()


def test_ours_lie_where_they_did() -> None:
    for model in (Notice, LedgerMessage):
        assert routers.db_for_write(model) == routers.db_for_read(model) == "ledger"
    for model in (Team, Topic):
        assert routers.db_for_write(model) == routers.db_for_read(model) == "default"


@pytest.mark.usefixtures("teams_are_booked")
def test_a_model_that_a_feature_names_is_read_and_written_there() -> None:
    assert routers.db_for_write(Team) == routers.db_for_read(Team) == "ledger"


@pytest.mark.usefixtures("teams_are_booked")
def test_its_migrations_go_there_and_those_of_its_sisters_do_not(settings: object) -> None:
    settings.ONE_DATABASE = False  # type: ignore[attr-defined]
    found = LedgerRouter()
    label = apps.get_app_config("teams").label
    assert (found.allow_migrate("ledger", label, "team"), found.allow_migrate("default", label, "team")) == (
        True,
        False,
    )
    for name in ("other", None):
        assert (found.allow_migrate("ledger", label, name), found.allow_migrate("default", label, name)) == (
            False,
            True,
        )
    # Of an app of which every model lies there, what names no model goes there, too
    assert (found.allow_migrate("ledger", "ledger"), found.allow_migrate("default", "ledger")) == (True, False)


@pytest.mark.usefixtures("teams_are_booked")
def test_one_database_takes_all_of_them_by_either_name(settings: object) -> None:
    settings.ONE_DATABASE = True  # type: ignore[attr-defined]
    assert all(LedgerRouter().allow_migrate(alias, "teams", "team") for alias in ("default", "ledger"))
