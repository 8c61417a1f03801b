"""Who may do what: people, roles, tokens."""

from __future__ import annotations

from hbus_console.access.acts import Act, Role
from hbus_console.registry.declaration import Feature, MenuEntry, Mount, SubjectKind

ACCESS_MANAGE = Act("access.manage", Role.ADMIN, "manage users, roles and other people's tokens")
TOKEN_OWN = Act("token.own", Role.VIEWER, "have API tokens", reading=True)

FEATURE = Feature(
    name="accounts",
    menu=(MenuEntry("access", "Access", "outline/lock", "accounts:access", "u", "Governance", 40, act=TOKEN_OWN),),
    pages=(Mount("", "hbus_console.accounts.urls"),),
    api=("hbus_console.accounts.api",),
    acts=(
        ACCESS_MANAGE,
        TOKEN_OWN,
    ),
    subjects=(SubjectKind("user", "user", address="hbus_console.accounts.addresses:user"),),
    audit_words={
        "session.login": "signed in",
        "session.login.refused": "failed to sign in as",
        "session.logout": "signed out",
        "session.password.change": "changed their own password",
        "token.create": "made the token",
        "token.revoke": "revoked the token",
        "user.create": "added the user",
        "user.grants.change": "changed the roles of",
        "user.deactivate": "deactivated",
        "user.reactivate": "reactivated",
        "user.password.reset": "reset the password of",
    },
    duties=("hbus_console.accounts.housekeeping:SignInExpiry",),
)
