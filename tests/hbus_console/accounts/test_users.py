from __future__ import annotations

from collections.abc import Callable

import pytest

from engine.core.errors import BadInput
from hbus_console.access.acts import Role
from hbus_console.access.permissions import SYSTEM, Actor, Forbidden, ScopedRole, allows
from hbus_console.accounts import services
from hbus_console.accounts.actors import actor_of
from hbus_console.accounts.models import User
from hbus_console.audit.models import AuditEntry
from hbus_console.publishing.feature import PUBLISH
from tests.hbus_console.accounts.conftest import PASSWORD, later

VIEWER = ScopedRole(Role.VIEWER, "*")
ADMIN = ScopedRole(Role.ADMIN, "*")


def last() -> AuditEntry:
    return AuditEntry.objects.latest("seq")


def test_a_new_user_has_their_roles_and_a_password_to_change(admin_actor: Actor) -> None:
    made = services.create_user(admin_actor, "anna", [ScopedRole(Role.EDITOR, "booking.*")], email="anna@x.example")
    user = User.objects.get(username="anna")
    assert user.check_password(made.password)
    assert user.must_change_password
    assert [(grant.role, grant.scope) for grant in user.grants.all()] == [("editor", "booking.*")]
    entry = last()
    assert (entry.actor, entry.action, entry.target_type, entry.target) == ("root", "user.create", "user", "anna")
    assert entry.after == {"email": "anna@x.example", "active": True, "roles": {"booking.*": "editor"}}
    assert made.password not in str(entry.__dict__)


@pytest.mark.parametrize(
    "name", ["", "Anna", "a b", "a/b", "system", "anonymous", "new", "root@shell", "x" * 101, "anna\n"]
)
def test_names_that_could_be_mistaken_are_refused(admin_actor: Actor, name: str) -> None:
    before = AuditEntry.objects.count()
    with pytest.raises(BadInput) as caught:
        services.create_user(admin_actor, name)
    assert caught.value.field == "username"
    assert AuditEntry.objects.count() == before


def test_a_name_is_given_once(admin_actor: Actor) -> None:
    services.create_user(admin_actor, "anna")
    with pytest.raises(BadInput, match="a user 'anna' already"):
        services.create_user(admin_actor, "anna")


@pytest.mark.parametrize("scope", ["", "booking.", ".*", "book*", "*.created", "a..b", "a b", "booking.*.x", "x" * 201])
def test_malformed_scopes_are_refused(admin_actor: Actor, scope: str) -> None:
    with pytest.raises(BadInput) as caught:
        services.create_user(admin_actor, "anna", [ScopedRole(Role.VIEWER, scope)])
    assert caught.value.field == "scope"
    assert not User.objects.filter(username="anna").exists()


def test_one_scope_has_one_role(admin_actor: Actor) -> None:
    with pytest.raises(BadInput, match=r"Two roles for a\.\*"):
        services.create_user(admin_actor, "anna", [ScopedRole(Role.VIEWER, "a.*"), ScopedRole(Role.EDITOR, "a.*")])


def test_a_weak_or_malformed_input_is_refused_with_its_field(admin_actor: Actor) -> None:
    with pytest.raises(BadInput) as weak:
        services.create_user(admin_actor, "anna", password="short")
    with pytest.raises(BadInput) as mail:
        services.create_user(admin_actor, "anna", email="nonsense")
    assert (weak.value.field, mail.value.field) == ("password", "email")


def test_roles_change_at_once_and_leave_before_and_after(admin_actor: Actor, make_user: Callable[..., User]) -> None:
    anna = make_user("anna", "viewer")
    services.change_grants(admin_actor, anna, [ScopedRole(Role.OPERATOR, "booking.*"), VIEWER], "on call")
    assert allows(actor_of(User.objects.get(pk=anna.pk)), PUBLISH, "booking.created")
    entry = last()
    assert entry.before["roles"] == {"*": "viewer"}
    assert entry.after["roles"] == {"*": "viewer", "booking.*": "operator"}
    assert entry.reason == "on call"


def test_giving_the_same_roles_again_leaves_no_entry(admin_actor: Actor, make_user: Callable[..., User]) -> None:
    anna = make_user("anna", "viewer")
    before = AuditEntry.objects.count()
    services.change_grants(admin_actor, anna, [VIEWER])
    assert AuditEntry.objects.count() == before


def test_nobody_locks_themselves_out(admin: User, admin_actor: Actor, make_user: Callable[..., User]) -> None:
    make_user("other", "admin")
    with pytest.raises(BadInput, match="yourself"):
        services.change_grants(admin_actor, admin, [VIEWER])
    with pytest.raises(BadInput, match="yourself"):
        services.deactivate_user(admin_actor, admin)
    assert actor_of(User.objects.get(pk=admin.pk)).grants == (ADMIN,)


def test_the_last_admin_stays(admin: User) -> None:
    with pytest.raises(BadInput, match="nobody could manage access"):
        services.change_grants(SYSTEM, admin, [VIEWER])
    with pytest.raises(BadInput, match="nobody could manage access"):
        services.deactivate_user(SYSTEM, admin)
    assert User.objects.get(pk=admin.pk).is_active


def test_a_deactivated_admin_does_not_count_as_one(admin: User, make_user: Callable[..., User]) -> None:
    other = make_user("other", "admin")
    services.deactivate_user(SYSTEM, other)
    with pytest.raises(BadInput, match="nobody could manage access"):
        services.deactivate_user(SYSTEM, admin)


def test_an_admin_of_a_namespace_is_not_the_last_admin(admin: User, make_user: Callable[..., User]) -> None:
    make_user("narrow", "admin", "booking.*")
    with pytest.raises(BadInput, match="nobody could manage access"):
        services.deactivate_user(SYSTEM, admin)


def test_deactivating_ends_tokens_for_good(admin_actor: Actor, make_user: Callable[..., User]) -> None:
    anna = make_user("anna", "editor")
    made = services.create_token(actor_of(anna), "ci", Role.VIEWER, "*", later())
    assert services.authenticate_token(made.raw)
    services.deactivate_user(admin_actor, anna, "left")
    assert services.authenticate_token(made.raw) is None
    assert not actor_of(User.objects.get(pk=anna.pk)).is_authenticated
    assert last().after["keys_revoked"] == 1
    services.reactivate_user(admin_actor, anna)
    assert services.authenticate_token(made.raw) is None
    assert actor_of(User.objects.get(pk=anna.pk)).grants == (ScopedRole(Role.EDITOR, "*"),)


def test_deactivating_and_reactivating_twice_does_it_once(admin_actor: Actor, make_user: Callable[..., User]) -> None:
    anna = make_user("anna")
    for act in (services.deactivate_user, services.deactivate_user, services.reactivate_user, services.reactivate_user):
        act(admin_actor, anna)
    actions = AuditEntry.objects.filter(target="anna").order_by("seq").values_list("action", flat=True)
    assert list(actions)[1:] == ["user.deactivate", "user.reactivate"]


def test_a_reset_password_is_shown_once_and_must_be_changed(admin_actor: Actor, make_user: Callable[..., User]) -> None:
    anna = make_user("anna")
    password = services.reset_password(admin_actor, anna, "forgot it")
    fresh = User.objects.get(pk=anna.pk)
    assert fresh.check_password(password)
    assert fresh.must_change_password
    assert not fresh.check_password(PASSWORD)
    assert all(password not in str(entry.__dict__) for entry in AuditEntry.objects.all())


def test_changes_of_one_request_are_all_or_none(admin_actor: Actor, admin: User) -> None:
    with pytest.raises(BadInput):
        services.change_user(admin_actor, admin, grants=[ADMIN, ScopedRole(Role.VIEWER, "a.*")], active=False)
    assert list(User.objects.get(pk=admin.pk).grants.values_list("scope", flat=True)) == ["*"]


@pytest.mark.parametrize("role", ["viewer", "operator", "editor", "governor"])
def test_only_an_admin_manages_access(make_user: Callable[..., User], admin: User, role: str) -> None:
    actor = actor_of(make_user("anna", role))
    before = AuditEntry.objects.count()
    for act in (
        lambda: services.create_user(actor, "bob"),
        lambda: services.change_grants(actor, admin, [VIEWER]),
        lambda: services.deactivate_user(actor, admin),
        lambda: services.reactivate_user(actor, admin),
        lambda: services.reset_password(actor, admin),
    ):
        with pytest.raises(Forbidden):
            act()
    assert AuditEntry.objects.count() == before
    assert User.objects.count() == 2


def test_the_first_start_makes_one_admin(db: None) -> None:
    password = services.ensure_first_admin()
    assert password is not None
    admin = User.objects.get()
    assert admin.username == "admin"
    assert admin.check_password(password)
    assert actor_of(admin).grants == (ADMIN,)
    assert services.ensure_first_admin() is None
    assert User.objects.count() == 1


def test_no_first_admin_is_made_where_there_are_users(make_user: Callable[..., User]) -> None:
    make_user("anna")
    assert services.ensure_first_admin() is None
