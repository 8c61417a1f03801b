"""With what rights an operation goes on, what ends it, and who may steer it where it reaches several namespaces."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.test import Client

from engine.core.clock import ManualClock, to_datetime
from hbus_console.access.acts import Role
from hbus_console.access.permissions import SYSTEM, Actor, Forbidden, ScopedRole
from hbus_console.accounts import services as accounts
from hbus_console.accounts.actors import actor_of, actor_of_token
from hbus_console.accounts.models import ApiToken, User
from hbus_console.audit.models import AuditEntry
from hbus_console.operations import services
from hbus_console.operations.models import Operation
from hbus_console.operations.runner import OperationRunner
from hbus_console.operations.starters import acting
from tests.hbus_console.accounts.conftest import PASSWORD
from tests.hbus_console.operations.conftest import MakeUser, Words

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])


def start(actor: Actor) -> Operation:
    return services.start(actor, "words", {"words": ["a", "b", "c"]}, reason="why", rate_per_s=1).operation


@pytest.fixture
def olga(operator: Actor) -> User:
    return User.objects.get(pk=operator.user_id)


@pytest.fixture
def token(olga: User, clock: ManualClock) -> ApiToken:
    ends = to_datetime(clock.now_ms()) + timedelta(hours=1)
    return accounts.create_token(actor_of(olga), "deploy", Role.OPERATOR, "booking.*", ends, clock=clock).token


def revoked(token: ApiToken, clock: ManualClock) -> None:
    accounts.revoke_token(SYSTEM, token, "it was found in a log", clock=clock)


def expired(token: ApiToken, clock: ManualClock) -> None:
    clock.advance(3_601)


def reset(token: ApiToken, clock: ManualClock) -> None:
    accounts.reset_password(SYSTEM, token.user, "it was stolen")


def deactivated(token: ApiToken, clock: ManualClock) -> None:
    accounts.deactivate_user(SYSTEM, token.user, "she left")


def gone(token: ApiToken, clock: ManualClock) -> None:
    token.user.delete()


@pytest.mark.parametrize(
    ("end", "by_token", "says"),
    [
        (revoked, True, "The token olga/deploy, which started it, was revoked."),
        (expired, True, "The token olga/deploy, which started it, has expired."),
        (reset, True, "All sessions and tokens of olga, who started it, were ended since."),
        (reset, False, "All sessions and tokens of olga, who started it, were ended since."),
        (deactivated, False, "olga, who started it, has no account any more that may sign in."),
        (gone, False, "olga, who started it, has no account any more that may sign in."),
    ],
)
def test_it_ends_with_what_it_was_started_with(
    olga: User, token: ApiToken, words: Words, runner: OperationRunner, clock: ManualClock, *,
    end: Callable[[ApiToken, ManualClock], None], by_token: bool, says: str,
) -> None:  # fmt: skip
    made = start(actor_of_token(token) if by_token else actor_of(olga))
    runner.tick()
    end(token, clock)
    clock.advance(1)
    runner.tick()

    made.refresh_from_db()
    assert (made.state, made.done, made.failed) == ("failed", 1, 0)
    assert made.last_error.startswith(says)
    entry = AuditEntry.objects.get(action="operation.fail", target=str(made.pk))
    assert entry.after["error"] == made.last_error


def test_it_goes_on_when_another_token_is_revoked(
    olga: User, token: ApiToken, words: Words, runner: OperationRunner, clock: ManualClock
) -> None:
    made = start(actor_of(olga))
    revoked(token, clock)
    runner.tick()
    made.refresh_from_db()
    assert (made.state, made.done) == ("running", 1)


def test_a_password_that_its_owner_changes_ends_no_operation(
    olga: User, words: Words, runner: OperationRunner, client: Client
) -> None:
    olga.set_password(PASSWORD)
    olga.save()
    made = start(actor_of(olga))
    client.force_login(olga)
    new = "five grey herons 7"
    client.post("/password/", {"current": PASSWORD, "new": new, "again": new})
    assert User.objects.get(pk=olga.pk).check_password(new)
    runner.tick()
    made.refresh_from_db()
    assert (made.state, made.done) == ("running", 1)


def test_what_was_started_before_this_was_kept_goes_on(
    token: ApiToken, words: Words, runner: OperationRunner, clock: ManualClock
) -> None:
    made = start(actor_of_token(token))
    Operation.objects.update(token_id=None, session_epoch=None)
    revoked(token, clock)
    runner.tick()
    made.refresh_from_db()
    assert (made.state, made.done) == ("running", 1)


def test_what_was_held_does_not_go_on_either(
    token: ApiToken, words: Words, runner: OperationRunner, clock: ManualClock, make_user: MakeUser
) -> None:
    made, peer = start(actor_of_token(token)), make_user("operator", "*", "peer")
    services.pause(peer, made.pk, "let me look")
    revoked(token, clock)
    services.resume(peer, made.pk, "go on")
    runner.tick()
    made.refresh_from_db()
    assert (made.state, made.done) == ("failed", 0)


def narrowed(user: User, scope: str) -> None:
    user.grants.all().delete()
    user.grants.create(role="operator", scope=scope)


def test_what_is_left_where_its_starter_may_still_do_it_goes_on(
    olga: User, words: Words, runner: OperationRunner
) -> None:
    words.within, words.still = "", {"booking.changed": 2}
    made = start(actor_of(olga))
    narrowed(olga, "booking.*")
    runner.tick()
    made.refresh_from_db()
    assert (made.scopes, made.state, made.done) == (["*"], "running", 1)


@pytest.mark.parametrize(
    ("still", "says"),
    [
        ({"booking.changed": 2, "payroll.paid": 7}, "on payroll.paid any more. 9 things are left as before."),
        ({"a.b": 1, "c.d": 1, "booking.made": 3}, "on a.b and 1 more any more. 5 things are left as before."),
        # A kind that cannot tell where it will come to goes on nowhere.
        (None, "redrive dead letters any more. 2 things are left as before."),
    ],
)
def test_one_of_several_places_taken_away_ends_it_and_says_which(
    olga: User, words: Words, runner: OperationRunner, clock: ManualClock, *, still: dict[str, int] | None, says: str
) -> None:
    words.within, words.still = "", still
    made = start(actor_of(olga))
    runner.tick()
    narrowed(olga, "booking.*")
    clock.advance(1)
    runner.tick()
    made.refresh_from_db()
    assert (made.state, made.done) == ("failed", 1)
    assert says in made.last_error
    assert AuditEntry.objects.get(action="operation.fail").after["error"] == made.last_error


def test_whoever_started_it_acts_with_the_grants_of_today(olga: User, words: Words, clock: ManualClock) -> None:
    made, now = start(actor_of(olga)), to_datetime(clock.now_ms())
    assert acting(made, now).grants == (ScopedRole(Role.OPERATOR, "*"),)
    olga.grants.all().delete()
    assert acting(made, now).grants == ()


def test_a_token_acts_under_its_ceiling(token: ApiToken, words: Words, clock: ManualClock) -> None:
    made = start(actor_of_token(token))
    assert acting(made, to_datetime(clock.now_ms())) == actor_of_token(token)


@pytest.mark.parametrize("verb", ["pause", "resume", "cancel"])
def test_an_operation_on_all_namespaces_is_steered_by_who_may_do_it_in_all(
    words: Words, make_user: MakeUser, verb: str
) -> None:
    words.within = ""
    made = start(make_user("admin", "*", "anna"))
    outsider = make_user("viewer", "*", "outsider")
    User.objects.get(pk=outsider.user_id).grants.create(role="operator", scope="alien.*")
    outsider = actor_of(User.objects.get(pk=outsider.user_id))
    if verb == "resume":
        Operation.objects.update(state="paused")

    assert not services.may_steer(outsider, services.operation(outsider, made.pk))
    with pytest.raises(Forbidden) as refused:
        getattr(services, verb)(outsider, made.pk, "mine now")
    assert (refused.value.action, refused.value.resource) == (words.action, "*")
    assert getattr(services, verb)(make_user("operator", "*", "peer"), made.pk, "all of it").pk == made.pk


def test_an_operation_on_some_namespaces_is_steered_by_who_may_do_it_in_these(
    words: Words, make_user: MakeUser
) -> None:
    words.within = ""
    starter = make_user("operator", "booking.*", "starter")
    made = start(starter)
    beside = make_user("operator", "alien.*", "beside")
    for each in (beside, make_user("operator", "booking.changed", "within")):
        User.objects.get(pk=each.user_id).grants.create(role="viewer", scope="*")
        who = actor_of(User.objects.get(pk=each.user_id))
        assert not services.may_steer(who, services.operation(who, made.pk))
    limited = Actor("starter/ci", "token", starter.user_id, starter.grants, ScopedRole(Role.OPERATOR, "alien.*"))
    assert not services.may_steer(limited, made)
    assert services.pause(starter, made.pk, "lunch").state == "paused"
    assert services.cancel(make_user("operator", "*", "over"), made.pk, "enough").state == "cancelled"


def test_what_nobody_can_be_asked_for_any_more_is_steered_by_who_may_do_it_everywhere(
    words: Words, make_user: MakeUser
) -> None:
    words.within = ""
    made = start(make_user("operator", "booking.*", "starter"))
    Operation.objects.update(scopes=[])
    made.refresh_from_db()
    User.objects.filter(username="starter").update(is_active=False)
    assert not services.may_steer(make_user("operator", "booking.*", "peer"), made)
    assert services.may_steer(make_user("operator", "*", "over"), made)


def test_what_its_starter_lost_is_steered_by_who_may_do_it_where_it_was_begun(
    words: Words, make_user: MakeUser
) -> None:
    words.within = ""
    made = start(make_user("operator", "booking.*", "starter"))
    User.objects.filter(username="starter").update(is_active=False)
    assert not services.may_steer(make_user("operator", "booking.changed", "within"), made)
    assert services.may_steer(make_user("operator", "booking.*", "peer"), made)
