from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from engine.core.clock import ManualClock, to_datetime
from engine.core.errors import BadInput
from hbus_console.access.acts import Role
from hbus_console.access.permissions import SYSTEM, Actor, Forbidden, allows, visible_scopes
from hbus_console.accounts import services, tokens
from hbus_console.accounts.actors import actor_of, actor_of_token
from hbus_console.accounts.models import ApiToken, User
from hbus_console.audit.models import AuditEntry
from hbus_console.topics.feature import TOPIC_EDIT

MakeUser = Callable[..., User]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(round(datetime.now(UTC).timestamp() * 1000))


@pytest.fixture
def anna(make_user: MakeUser) -> User:
    return make_user("anna", "editor", "booking.*")


def day(clock: ManualClock, days: float = 30) -> datetime:
    return to_datetime(clock.now_ms()) + timedelta(days=days)


def test_a_token_is_shown_once_and_stored_as_a_hash(anna: User, clock: ManualClock) -> None:
    made = services.create_token(actor_of(anna), "ci", Role.VIEWER, "booking.*", day(clock), clock=clock)
    assert made.raw.startswith(f"hbus_{made.token.prefix}_")
    row = ApiToken.objects.get()
    assert row.digest == hashlib.sha256(made.raw.encode()).hexdigest()
    secret = made.raw.split("_", 2)[2]
    assert len(secret) == 43
    assert secret not in str(ApiToken.objects.values().get())
    entry = AuditEntry.objects.latest("seq")
    assert (entry.action, entry.target) == ("token.create", "anna/ci")
    assert secret not in str(entry.__dict__)
    assert entry.after["prefix"] == made.token.prefix


def test_a_token_acts_as_its_maker_under_its_ceiling(anna: User, clock: ManualClock) -> None:
    made = services.create_token(actor_of(anna), "ci", Role.VIEWER, "booking.created", day(clock), clock=clock)
    token = services.authenticate_token(made.raw, clock=clock)
    assert token is not None
    actor = actor_of_token(token)
    assert (actor.name, actor.kind) == ("anna/ci", "token")
    assert visible_scopes(actor) == ("booking.created",)
    assert not allows(actor, TOPIC_EDIT, "booking.created")


def test_when_the_maker_loses_a_role_the_token_does_too(anna: User, clock: ManualClock) -> None:
    made = services.create_token(actor_of(anna), "ci", Role.EDITOR, "booking.*", day(clock), clock=clock)
    services.change_grants(SYSTEM, anna, [])
    token = services.authenticate_token(made.raw, clock=clock)
    assert token is not None
    assert visible_scopes(actor_of_token(token)) == ()


@pytest.mark.parametrize(
    ("role", "scope", "field"),
    [
        (Role.GOVERNOR, "booking.*", "role"),
        (Role.VIEWER, "*", "role"),
        (Role.VIEWER, "stay.*", "role"),
        (Role.VIEWER, "bo oking", "scope"),
    ],
)
def test_a_token_stronger_than_its_maker_is_refused(
    anna: User, clock: ManualClock, role: Role, scope: str, field: str
) -> None:
    with pytest.raises(BadInput) as caught:
        services.create_token(actor_of(anna), "ci", role, scope, day(clock), clock=clock)
    assert caught.value.field == field
    assert not ApiToken.objects.exists()


@pytest.mark.parametrize("days", [0, -1, 365.1])
def test_a_token_must_end_within_a_year(anna: User, clock: ManualClock, days: float) -> None:
    with pytest.raises(BadInput) as caught:
        services.create_token(actor_of(anna), "ci", Role.VIEWER, "booking.*", day(clock, days), clock=clock)
    assert caught.value.field == "expires_at"


def test_an_end_without_a_zone_is_refused(anna: User, clock: ManualClock) -> None:
    naive = day(clock).replace(tzinfo=None)
    with pytest.raises(BadInput) as caught:
        services.create_token(actor_of(anna), "ci", Role.VIEWER, "booking.*", naive, clock=clock)
    assert caught.value.field == "expires_at"


@pytest.mark.parametrize("name", ["", " ci", "a/b", "x" * 49, "ci\n"])
def test_a_token_has_a_name_that_can_stand_in_the_log(anna: User, clock: ManualClock, name: str) -> None:
    with pytest.raises(BadInput) as caught:
        services.create_token(actor_of(anna), name, Role.VIEWER, "booking.*", day(clock), clock=clock)
    assert caught.value.field == "name"


def test_two_living_tokens_do_not_share_a_name(anna: User, clock: ManualClock) -> None:
    def make() -> services.NewToken:
        return services.create_token(actor_of(anna), "ci", Role.VIEWER, "booking.*", day(clock), clock=clock)

    first = make()
    with pytest.raises(BadInput, match="named 'ci' already"):
        make()
    services.revoke_token(actor_of(anna), first.token)
    assert make().raw != first.raw


def test_a_token_cannot_make_tokens(anna: User, clock: ManualClock) -> None:
    made = services.create_token(actor_of(anna), "ci", Role.EDITOR, "booking.*", day(clock), clock=clock)
    with pytest.raises(Forbidden):
        services.create_token(actor_of_token(made.token), "child", Role.VIEWER, "booking.*", day(clock), clock=clock)


def test_an_expired_token_is_refused(anna: User, clock: ManualClock) -> None:
    made = services.create_token(actor_of(anna), "ci", Role.VIEWER, "booking.*", day(clock, 1), clock=clock)
    clock.advance(86_399)
    assert services.authenticate_token(made.raw, clock=clock) is not None
    clock.advance(1)
    assert services.authenticate_token(made.raw, clock=clock) is None


@pytest.mark.parametrize(
    "spoil",
    [
        lambda raw: "",
        lambda raw: "hbus_",
        lambda raw: raw[:-1],
        lambda raw: raw + "x",
        lambda raw: raw[:-1] + ("A" if raw[-1] != "A" else "B"),
        lambda raw: raw.replace("hbus_", "HBUS_"),
        lambda raw: "hbus_0000000000_" + raw.split("_", 2)[2],
        lambda raw: raw + "\n",
        lambda raw: "hbus_\udcff",
    ],
)
def test_anything_else_is_no_token(anna: User, clock: ManualClock, spoil: Callable[[str], str]) -> None:
    made = services.create_token(actor_of(anna), "ci", Role.VIEWER, "booking.*", day(clock), clock=clock)
    assert services.authenticate_token(spoil(made.raw), clock=clock) is None


def test_every_refusal_compares_a_whole_digest(anna: User, clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that neither the answer nor its time tells whether a prefix exists."""
    compared: list[tuple[int, int]] = []

    def compare(one: str, other: str) -> bool:
        compared.append((len(one), len(other)))
        return one == other

    monkeypatch.setattr(tokens.hmac, "compare_digest", compare)
    services.create_token(actor_of(anna), "ci", Role.VIEWER, "booking.*", day(clock), clock=clock)
    for raw in ("", "hbus_0000000000_" + "x" * 43, "hbus_" + ApiToken.objects.get().prefix + "_" + "x" * 43):
        assert services.authenticate_token(raw, clock=clock) is None
    assert compared == [(64, 64)] * 3


def test_use_is_noted_at_most_once_a_minute(anna: User, clock: ManualClock) -> None:
    made = services.create_token(actor_of(anna), "ci", Role.VIEWER, "booking.*", day(clock), clock=clock)
    first = to_datetime(clock.now_ms())
    for seconds in (0, 30, 29.9):
        clock.advance(seconds)
        services.authenticate_token(made.raw, clock=clock)
        assert ApiToken.objects.get().last_used_at == first
    clock.advance(0.1)
    services.authenticate_token(made.raw, clock=clock)
    assert ApiToken.objects.get().last_used_at == first + timedelta(seconds=60)


def test_one_revokes_ones_own_and_an_admin_anybodys(
    anna: User, clock: ManualClock, make_user: MakeUser, admin_actor: Actor
) -> None:
    def make(name: str) -> ApiToken:
        ends = day(clock)
        return services.create_token(actor_of(anna), name, Role.VIEWER, "booking.*", ends, clock=clock).token

    own, other, self_ended = make("own"), make("other"), make("self")
    services.revoke_token(actor_of(anna), own, "lost")
    with pytest.raises(Forbidden):
        services.revoke_token(actor_of(make_user("bob", "governor")), other)
    services.revoke_token(admin_actor, other, "incident 12")
    services.revoke_token(actor_of_token(self_ended), self_ended)
    assert ApiToken.objects.filter(revoked_at__isnull=True).count() == 0
    revoked = AuditEntry.objects.filter(action="token.revoke").order_by("seq").values_list("actor", "target", "reason")
    assert list(revoked) == [
        ("anna", "anna/own", "lost"),
        ("root", "anna/other", "incident 12"),
        ("anna/self", "anna/self", ""),
    ]


def test_revoking_twice_does_it_once(anna: User, clock: ManualClock) -> None:
    token = services.create_token(actor_of(anna), "ci", Role.VIEWER, "booking.*", day(clock), clock=clock).token
    services.revoke_token(actor_of(anna), token)
    services.revoke_token(actor_of(anna), token)
    assert AuditEntry.objects.filter(action="token.revoke").count() == 1
