"""The roles: what each runs, what it needs first, how it is known to be ready, and how long it may take to stop."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from engine.core.env import Env
from engine.core.errors import BadInput
from hbus_console.state import ROOT
from hbus_console.supervisor import nsqd, probes, store
from hbus_console.supervisor.installation import Installation

Probe = Callable[[Installation, int, int], str]


@dataclass(frozen=True)
class Role:
    """One kind of process.

    ``probe(installation, slot, pid)`` answers the empty string when the process is ready, else the reason.
    ``grace_s`` is what it gets between SIGTERM and SIGKILL under the supervisor.
    """

    name: str
    summary: str
    probe: Probe
    needs: tuple[str, ...]
    grace_s: float
    #: ANSI colour of its name in the console.
    tone: int
    #: More than one may run on one machine.
    many: bool = False

    def command(self, at: Installation, slot: int) -> list[str]:
        """What the supervisor starts."""
        if self.name in EMBEDDED:
            return EMBEDDED[self.name](at)
        return [sys.executable, str(ROOT / "manage.py"), "role", self.name, "--slot", str(slot)]

    def address(self, at: Installation) -> str:
        """Where it listens; empty when it does not."""
        addresses = {"store": f"127.0.0.1:{at.store_port}", "nsqd": f"127.0.0.1:{at.nsqd_ports[1]}"}
        return {**addresses, "web": at.console_url}.get(self.name, "")


#: What the others stand on; of these only what runs here is waited for.
_STORES = ("store", "nsqd")

ROLES = {
    role.name: role
    for role in (
        Role("store", "the embedded Valkey", probes.store_answers, needs=(), grace_s=1.0, tone=35),
        Role("nsqd", "the embedded nsqd", probes.nsqd_answers, needs=(), grace_s=1.0, tone=34),
        Role("web", "console and API", probes.web_answers, needs=_STORES, grace_s=3.8, tone=36),
        Role("consumer", "hosts subscriptions", probes.node_beats, needs=_STORES, grace_s=3.8, tone=32, many=True),
        Role("keeper", "background duties", probes.node_beats, needs=_STORES, grace_s=3.8, tone=33, many=True),
    )
}
#: How long a role has to drain under the supervisor (it gets it as HBUS_GRACE_S); what is left until ``grace_s`` is for
#: closing. Together with the store's all must have ended in five seconds.
DRAIN_S = 2


def store_command(at: Installation) -> list[str]:
    """The embedded store's server on a configuration written now."""
    from hbus_console.state import secret

    config = store.write_config(at.state / "store", port=at.store_port, password=secret("store"), fsync=at.store_fsync)
    return [str(store.find_binary()), str(config)]


def nsqd_command(at: Installation) -> list[str]:
    """The embedded nsqd. Raises ``ConfigurationError`` when it is not there and cannot be built."""
    tcp_port, http_port = at.nsqd_ports
    return nsqd.command(nsqd.build(), at.state / "nsqd", tcp_port=tcp_port, http_port=http_port)


#: Roles that are programs of others: what they are started by.
EMBEDDED: dict[str, Callable[[Installation], list[str]]] = {"store": store_command, "nsqd": nsqd_command}


def find(name: str) -> Role:
    """The role of that name. Raises ``BadInput``."""
    try:
        return ROLES[name]
    except KeyError:
        raise BadInput(
            f"There is no role {name!r}.", remedy=f"Choose from {', '.join(ROLES)}.", field="ROLES"
        ) from None


def chosen(words: Sequence[str], *, embedded: bool, embedded_nsqd: bool = False) -> list[tuple[Role, int]]:
    """The processes to run, in starting order, for ``ROLES=web,consumer:2`` (all, one of each, when empty).

    The embedded store comes along unasked: the others cannot run without it; likewise the embedded nsqd where topics
    need it, which also comes when it is named. Raises ``BadInput``.
    """
    counts: dict[str, int] = {}
    for word in words or [name for name in ROLES if name != "nsqd"]:
        name, _, number = word.partition(":")
        role = find(name)
        if number and not (number.isdecimal() and 1 <= int(number) <= 64):
            raise BadInput(f"{word} is not a role and a number.", remedy="Write consumer:2.", field="ROLES")
        counts[name] = counts.get(name, 0) + int(number or 1)
        if counts[name] > 1 and not role.many:
            raise BadInput(f"Only one {name} runs on one machine.", remedy=f"Write {name} once.", field="ROLES")
    if embedded_nsqd:
        counts["nsqd"] = 1
    elif "nsqd" in counts and (Env().words("NSQD_URL") or Env().words("NSQLOOKUPD_URL")):
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
    return [(role, slot) for role in ROLES.values() for slot in range(counts.get(role.name, 0))]
