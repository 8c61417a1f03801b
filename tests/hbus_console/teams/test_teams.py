"""Teams through their services."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from engine.core.errors import BadInput, Conflict, NotThere
from hbus_console.access.acts import Role
from hbus_console.access.permissions import Forbidden
from hbus_console.audit.models import AuditEntry
from hbus_console.subscriptions.models import Subscription
from hbus_console.teams import owned, services
from hbus_console.teams.models import Team
from hbus_console.teams.services import TeamDraft
from hbus_console.topics.models import Topic
from tests.costs import calls
from tests.hbus_console.topics.conftest import EDITOR, GOVERNOR, actor

pytestmark = [pytest.mark.django_db(databases=["default", "ledger"]), pytest.mark.usefixtures("own_keys")]


def test_a_team_has_a_name_and_a_contact(told: Callable[[], list[str]]) -> None:
    services.create_team(GOVERNOR, TeamDraft(" Front desk ", "#front-desk"))
    assert Team.objects.get().name == "Front desk"
    assert told() == ["team.create"]


@pytest.mark.parametrize(
    ("draft", "field"),
    [
        (TeamDraft("", "#x"), "name"),
        (TeamDraft("x" * 81, "#x"), "name"),
        (TeamDraft("a/b", "#x"), "name"),
        (TeamDraft("a\nb", "#x"), "name"),
        (TeamDraft("A", " "), "contact"),
    ],
)
def test_a_bad_team_is_refused_at_its_field(draft: TeamDraft, field: str) -> None:
    with pytest.raises(BadInput) as refused:
        services.create_team(GOVERNOR, draft)
    assert refused.value.field == field


@pytest.mark.parametrize("who", [EDITOR, actor(Role.GOVERNOR, "booking.*")])
def test_teams_are_the_whole_installations(who: object) -> None:
    with pytest.raises(Forbidden):
        services.create_team(who, TeamDraft("A", "#a"))  # type: ignore[arg-type]


def test_a_name_is_taken_whatever_its_case(team: Team) -> None:
    with pytest.raises(Conflict):
        services.create_team(GOVERNOR, TeamDraft("reservations", "#x"))


def test_a_renamed_team_keeps_its_topics_and_raises_their_revision(topic: Topic) -> None:
    services.change_team(GOVERNOR, "Reservations", {"name": "Bookings", "contact": "#bookings"}, "merged")
    topic.refresh_from_db()
    assert topic.team is not None
    assert (topic.team.name, topic.team.contact, topic.revision) == ("Bookings", "#bookings", 2)
    assert AuditEntry.objects.get(action="team.change").before == {"name": "Reservations", "contact": "#reservations"}


def test_changing_nothing_leaves_no_trace(team: Team, told: Callable[[], list[str]]) -> None:
    services.change_team(GOVERNOR, "Reservations", {"contact": "#reservations"})
    assert told() == []


def test_a_team_that_answers_for_something_cannot_go(topic: Topic) -> None:
    with pytest.raises(Conflict, match="1 topics"):
        services.delete_team(GOVERNOR, "Reservations", "gone")


def test_a_free_team_goes_with_a_reason(team: Team) -> None:
    with pytest.raises(BadInput):
        services.delete_team(GOVERNOR, "Reservations", "")
    services.delete_team(GOVERNOR, "Reservations", "gone")
    assert not Team.objects.exists()
    with pytest.raises(NotThere):
        services.delete_team(GOVERNOR, "Reservations", "gone")


def test_what_a_team_answers_for_is_counted_in_the_readers_scope(
    topic: Topic, team: Team, calling: Callable[..., Callable[..., Any]]
) -> None:
    """Nobody learns from a count how many topics there are beyond her scope."""
    other = Topic.objects.create(name="payment.taken", team=team)
    Subscription.objects.create(topic=other, group="ledger", team=team)
    everything, bookings, nothing = (calling(Role.VIEWER, scope) for scope in ("*", "booking.*", "stay"))
    for call, counts in ((everything, (2, 1)), (bookings, (1, 0)), (nothing, (0, 0))):
        [listed] = call("GET", "teams").json()["results"]
        assert (listed["topics"], listed["subscriptions"]) == counts
        assert call("GET", f"teams/{team.name}").json() == listed


def test_subscriptions_of_one_name_are_told_apart_by_their_topic(topic: Topic, team: Team) -> None:
    other = Topic.objects.create(name="payment.taken")
    for about, group in ((topic, "ledger"), (other, "ledger"), (other, "billing")):
        Subscription.objects.create(topic=about, group=group, team=team)
    [(_, holdings)] = owned.teams_with_holdings(EDITOR)
    named = {thing.text for holding in holdings for thing in holding.things}
    assert {f"ledger on {topic.name}", "ledger on payment.taken", "billing", topic.name} == named


def test_a_reason_to_delete_is_asked_for_only_where_a_team_may_go(topic: Topic, signed_in: Callable[..., Any]) -> None:
    Team.objects.create(name="Nobody's", contact="#x")
    page = signed_in(Role.ADMIN, "*").get("/teams/").content.decode()
    assert page.count("needed to delete") == page.count('value="delete"') == 1


def test_the_list_fetches_only_what_it_shows_of_each_team_and_counts_the_rest() -> None:
    for name in ("Payments", "Reservations"):
        owner = Team.objects.create(name=name, contact="#x")
        held = Topic.objects.bulk_create(
            Topic(name=f"{name.lower()}.t{number:03}", team=owner) for number in range(150)
        )
        Subscription.objects.bulk_create(Subscription(topic=each, group="g", team=owner) for each in held)
    Team.objects.create(name="Idle", contact="#x")
    # What is resolved on first use does not count.
    owned.teams_with_holdings(actor(Role.VIEWER, "none.*"))
    with CaptureQueriesContext(connection) as asked, calls() as cost:
        found = {team.name: holdings for team, holdings in owned.teams_with_holdings(actor(Role.VIEWER, "payments.*"))}
    assert len(asked) <= 1 + 2 * len(owned.kinds())
    topics = found["Payments"][[each.relation for each in owned.kinds()].index("topics")]
    assert [thing.text for thing in topics.things] == [f"payments.t00{number}" for number in range(4)]
    assert topics.more == 146
    for name in ("Reservations", "Idle"):
        assert [(len(each.things), each.more) for each in found[name]] == [(0, 0)] * len(found[name])
    cost.at_most(44_000, "calls for 600 things")
