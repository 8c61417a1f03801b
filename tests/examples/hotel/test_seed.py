from __future__ import annotations

import pytest

from engine.bus.errors import PublishRefused
from examples.hotel.events import TOPICS
from examples.hotel.lifecycle import moments
from examples.hotel.models import PartnerRoom
from examples.hotel.seed import TEAMS, seed, subscriptions
from examples.hotel.simulator import simulate
from hbus_console.access.acts import Role
from hbus_console.access.permissions import SYSTEM, Actor, Forbidden, ScopedRole
from hbus_console.audit.models import AuditEntry
from hbus_console.jobs.models import Job
from hbus_console.jobs.services.jobs import change_job
from hbus_console.publishing.producer import shared_producer
from hbus_console.subscriptions.models import Subscription
from hbus_console.teams.models import Team
from hbus_console.topics.models import Topic
from hbus_console.wiring import bus


def test_topics_are_owned_described_and_mask_what_is_personal(hotel: None) -> None:
    topics = {topic.name: topic for topic in Topic.objects.select_related("team")}
    assert topics.keys() == TOPICS.keys()
    assert all(topic.team and topic.description for topic in topics.values())
    assert topics["stay.completed"].classification == "personal"
    assert topics["stay.completed"].masked_fields == ["guest.email", "guest.name"]
    assert topics["booking.cancelled"].classification == "internal"
    assert topics["booking.changed"].ordering == "key"
    assert set(Team.objects.values_list("name", flat=True)) == set(TEAMS)


def test_each_subscription_has_an_owner_and_a_group_in_the_store(hotel: None) -> None:
    assert sorted(subscriptions()) == sorted(Subscription.objects.values_list("topic__name", "group"))
    assert all(row.team for row in Subscription.objects.select_related("team"))
    assert bus.admin().groups("booking.cancelled") == ["availability", "partner-sync"]


def test_the_jobs_of_the_file_are_made_with_their_owners_and_stay_what_people_make_of_them(hotel: None) -> None:
    jobs = {job.name: job for job in Job.objects.select_related("team")}
    assert {name: job.team and job.team.name for name, job in jobs.items()} == {
        "hotel.nightly-close": "Reservations",
        "hotel.rate-parity": "Distribution",
        "hotel.month-end-invoice": "Finance",
    }
    assert {(job.zone, job.target) for job in jobs.values()} == {("Europe/Lisbon", name) for name in jobs}
    change_job(SYSTEM, "hotel.rate-parity", {"schedule": "*/15 * * * *"}, "less of it")
    assert not seed(SYSTEM)
    assert Job.objects.get(name="hotel.rate-parity").schedule == "*/15 * * * *"
    Job.objects.filter(name="hotel.nightly-close").delete()
    assert seed(SYSTEM)
    assert Job.objects.count() == 3


def test_seeding_twice_changes_nothing(hotel: None) -> None:
    before = AuditEntry.objects.count()
    PartnerRoom.objects.create(code="L", added_by="an operator")
    assert not seed(SYSTEM)
    assert AuditEntry.objects.count() == before
    assert PartnerRoom.objects.filter(code="L").exists()


@pytest.mark.django_db
def test_who_may_not_make_teams_may_not_seed() -> None:
    with pytest.raises(Forbidden):
        seed(Actor(name="e", grants=(ScopedRole(Role.EDITOR, "*"),)))
    assert not Topic.objects.exists()


def test_every_event_fits_its_topics_schema_and_a_wrong_one_does_not(hotel: None) -> None:
    seen = set()
    for moment in moments(simulate(60)):
        shared_producer().prepare(moment.topic, moment.event)
        seen.add(moment.topic)
    assert seen == TOPICS.keys() - {"invoice.drafted", "night.closed"}
    with pytest.raises(PublishRefused):
        shared_producer().prepare("booking.cancelled", {"booking_id": "b", "hotel": "h", "reason": "whim"})
