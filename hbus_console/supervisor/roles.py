"""The roles as the features declare them: which there are, which of them run here, and what each is started by."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cache

from engine.core.env import Env
from engine.core.errors import BadInput
from engine.core.numbers import whole
from hbus_console.registry.declaration import ProcessRole
from hbus_console.registry.loading import features, resolve
from hbus_console.registry.names import ROLES
from hbus_console.state import ROOT
from hbus_console.supervisor.installation import Installation

#: How long a role has to drain under the supervisor (it gets it as HBUS_GRACE_S); what is left until ``grace_s`` is for
#: closing. Together with the store's all must have ended in five seconds.
DRAIN_S = 2


@dataclass(frozen=True)
class SupervisedRole:
    """One kind of process; what its declaration names is resolved when it is used."""

    declared: ProcessRole

    @property
    def name(self) -> str:
        return self.declared.name

    @property
    def embedded(self) -> bool:
        """Whether it is a program of others."""
        return bool(self.declared.command)

    def command(self, at: Installation, slot: int) -> list[str]:
        """What the supervisor starts."""
        if self.declared.command:
            make: Callable[[Installation], list[str]] = resolve(self.declared.command)
            return make(at)
        return [sys.executable, str(ROOT / "manage.py"), "role", self.name, "--slot", str(slot)]

    def address(self, at: Installation) -> str:
        """Where it listens; empty when it does not."""
        tell: Callable[[Installation], str] | None = (self.declared.address and resolve(self.declared.address)) or None
        return tell(at) if tell else ""

    def probe(self, at: Installation, slot: int, pid: int) -> str:
        """Empty when the process is ready, else the reason."""
        ask: Callable[[Installation, int, int], str] = resolve(self.declared.probe)
        return ask(at, slot, pid)

    def run(self, slot: int) -> None:
        """Its work, in this process."""
        work: Callable[[int], None] = resolve(self.declared.run)
        work(slot)


@cache
def roles() -> dict[str, SupervisedRole]:
    """Every role by its name, in starting order. Raises ``ConfigurationError`` for two of one name."""
    declared = sorted(ROLES.by_name(features()).values(), key=lambda role: role.place)
    return {role.name: SupervisedRole(role) for role in declared}


def find(name: str) -> SupervisedRole:
    """The role of that name. Raises ``BadInput``."""
    try:
        return roles()[name]
    except KeyError:
        raise BadInput(
            f"There is no role {name!r}.", remedy=f"Choose from {', '.join(roles())}.", field="ROLES"
        ) from None


def needed() -> set[str]:
    """The roles that some feature cannot do without here. The tables must be there."""
    return {name for feature in features() for name, asks in feature.needs_role.items() if resolve(asks)()}


def chosen(words: Sequence[str], *, embedded: bool, needed: Collection[str] = ()) -> list[tuple[SupervisedRole, int]]:
    """The processes to run, in starting order, for ``ROLES=web,consumer:2`` (one of each usual role, when empty).

    The embedded store comes along unasked: the others cannot run without it; likewise what is ``needed``. The embedded
    nsqd also comes when it is named. Raises ``BadInput``.
    """
    counts: dict[str, int] = {}
    for word in words or [role.name for role in roles().values() if role.declared.usual]:
        name, _, number = word.partition(":")
        role = find(name)
        if number and not 1 <= (whole(number) or 0) <= 64:
            raise BadInput(f"{word} is not a role and a number.", remedy="Write consumer:2.", field="ROLES")
        counts[name] = counts.get(name, 0) + int(number or 1)
        if counts[name] > 1 and not role.declared.many:
            raise BadInput(f"Only one {name} runs on one machine.", remedy=f"Write {name} once.", field="ROLES")
    for name in needed:
        counts.setdefault(find(name).name, 1)
    if "nsqd" in counts and (Env().words("NSQD_URL") or Env().words("NSQLOOKUPD_URL")):
        raise BadInput(
            "The role nsqd is the embedded one, and NSQD_URL or NSQLOOKUPD_URL names another.",
            remedy="Take nsqd out of ROLES, or unset them.",
            field="ROLES",
        )
    if embedded:
        counts["store"] = 1
    elif words and "store" in counts:
        raise BadInput(
            "The role store is the embedded one, and REDIS_URL names another.",
            remedy="Take store out of ROLES, or unset REDIS_URL.",
            field="ROLES",
        )
    else:
        counts.pop("store", None)
    return [(role, slot) for role in roles().values() for slot in range(counts.get(role.name, 0))]
