"""What of the installation itself needs a person: the store, roles that are gone, duties that fail."""

from __future__ import annotations

from collections.abc import Sequence

from django.urls import reverse

from engine.core.clock import SystemClock
from hbus_console.cluster import asking, probes, services
from hbus_console.cluster.asking import FeatureHealth
from hbus_console.cluster.probes import StoreState
from hbus_console.nodes.stamps import Node
from hbus_console.supervisor import roles as supervised
from hbus_console.ui.concern import MOST_OF_A_KIND, Concern, Look, at
from hbus_console.ui.formats import counted, listed

_clock = SystemClock()


def store(look: Look) -> StoreState:
    """The store, asked now."""
    return probes.store_state()


def nodes(look: Look) -> Sequence[Node]:
    """Whoever stamps; nobody when that cannot be read."""
    return services.living(_clock)[0]


def standings(look: Look) -> Sequence[FeatureHealth]:
    """What features stand on, asked now."""
    return asking.standings()


def concerns(look: Look) -> list[Concern]:
    """The worst first."""
    return at(10, [*_store(_told(look)), *_standings(look.once(standings)), *_processes(look)])


def _told(look: Look) -> StoreState:
    state, _ = services.told_amounts(look.actor, look.once(store), ())
    return state


def _store(state: StoreState) -> list[Concern]:
    tone, page = "bad" if state.error or state.refusal else "warn", reverse("cluster:overview")
    return [Concern(tone, text.rstrip("."), state.address, page, "Open cluster") for text in state.troubles]


def _standings(found: Sequence[FeatureHealth]) -> list[Concern]:
    page = reverse("cluster:overview")
    return [
        Concern(each.tone, f"{each.name} {each.health.trouble}", each.health.note, page, "Open cluster")
        for each in found
        if each.health.trouble
    ]


def _processes(look: Look) -> list[Concern]:
    state, found = look.once(store), look.once(nodes)
    if state.error or state.refusal:
        # Nobody can stamp: that nobody does says nothing.
        return []
    page, concerns = reverse("cluster:overview"), []
    stamping = {name for name, role in supervised.roles().items() if role.declared.stamps}
    for role in services.roles(found, state, (), look.scopes):
        # The others stamp nothing whose silence tells: whoever reads this has reached a web process.
        # And of one that lives its duties tell by themselves.
        if role.name not in stamping or role.tone == "ok" or role.word in (services.TROUBLED, services.BUSY):
            continue
        called = supervised.roles()[role.name].declared.words or role.name
        text = f"No {called} is alive" if role.tone == "bad" else f"A {called} has fallen silent"
        concerns.append(Concern(role.tone, text, role.note, page, "Open cluster"))
    duties = services.duties(found, look.scopes)
    hung = [(duty.name, f"on {duty.node}: restart that keeper") for duty in duties if duty.state == "hung"]
    failing, alike = _by_cause([(duty.name, duty.last_error) for duty in duties if duty.last_error])
    fail = [*alike, *_duties("warn", failing, "fails", "fail")]
    return [*concerns, *_duties("bad", hung, "hangs", "hang"), *fail]


def _by_cause(failing: Sequence[tuple[str, str]]) -> tuple[list[tuple[str, str]], list[Concern]]:
    """Those that fail each for its own cause; and of what several have met, such as a store that was away, one line."""
    named: dict[str, list[str]] = {}
    for name, why in failing:
        named.setdefault(why, []).append(name)
    page = reverse("cluster:overview")
    alike = [
        Concern(
            "warn",
            f"{counted(len(names), 'duty', 'duties')} fail alike",
            f"{why} {listed(names)}",
            page,
            "Open cluster",
        )
        for why, names in named.items()
        if len(names) > 1
    ]
    return [(names[0], why) for why, names in named.items() if len(names) == 1], alike


def _duties(tone: str, found: Sequence[tuple[str, str]], one: str, many: str) -> list[Concern]:
    """Each with its note, and those that are too many in one line."""
    page = reverse("cluster:overview")
    told = [
        Concern(tone, f"The duty {name} {one}", note, page, "Open cluster") for name, note in found[:MOST_OF_A_KIND]
    ]
    if more := [name for name, _ in found[MOST_OF_A_KIND:]]:
        said = f"{counted(len(more), 'more duty', 'more duties')} {one if len(more) == 1 else many}"
        told.append(Concern(tone, said, listed(more), page, "Open cluster"))
    return told
