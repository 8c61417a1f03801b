"""Two features that bring a thing of one name are refused: silently, one would take the other's place."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, fields
from types import ModuleType

import pytest
from django.http import HttpResponse
from django.urls import path

from engine.core.errors import ConfigurationError
from engine.core.fact_kinds import FactCatalog
from hbus_console.access.acts import Act, Role
from hbus_console.alerts import kinds as alert_kinds
from hbus_console.audit import sides, words
from hbus_console.evidence import booking
from hbus_console.evidence import kinds as fact_kinds
from hbus_console.keeper import duties
from hbus_console.operations import kinds as operation_kinds
from hbus_console.overview import examples
from hbus_console.registry import acts, declared, names, subjects
from hbus_console.registry.declaration import Feature, MenuEntry, Mount, Owned, ProcessRole, SubjectKind
from hbus_console.registry.loading import by_app, features
from hbus_console.registry.unique import unique
from hbus_console.supervisor import roles
from hbus_console.teams import owned
from hbus_console.ui import menu
from tests.source import named, python

NOBODY = f"{__name__}:nobody"


def nobody() -> None:
    return


@dataclass(frozen=True)
class Bare:
    """What is known of a thing by its name alone."""

    name: str
    engine: str = ""


BREAKER = Bare("breaker-gauge")
KINDS = (Bare("lag"),)
REDRIVE = Bare("redrive")
LIVELY = Bare("hotel")
PROJECTION = Bare("p", engine="bus")
FACTS = FactCatalog("cron", fact_kinds.catalogs()[0].kinds[:1])


def breaker() -> Bare:
    return BREAKER


def entry(key: str, shortcut: str) -> MenuEntry:
    return MenuEntry(key, "X", "outline/bulb", "overview:overview", shortcut, "Bus", 90)


def role(name: str) -> ProcessRole:
    return ProcessRole(name, "x", NOBODY, 31, run=NOBODY)


#: What a stranger brings that is another's already, who that is, and the words for it.
AGAIN: dict[str, tuple[Feature, str]] = {
    "acts": (Feature("cron", acts=(Act("topic.delete", Role.VIEWER, "x"),)), "topics and cron both bring an act"),
    "view": (Feature("cron", acts=(Act("view", Role.VIEWER, "x"),)), "hbus and cron both bring an act 'view'"),
    "subjects": (
        Feature("cron", subjects=(SubjectKind("message", "job"),)),
        "messages and cron both bring a kind of subjects 'message'",
    ),
    "roles": (Feature("cron", roles=(role("keeper"),)), "keeper and cron both bring a role 'keeper'"),
    "menu": (Feature("cron", menu=(entry("topics", "x"),)), "topics and cron both bring a menu entry 'topics'"),
    "shortcut": (Feature("cron", menu=(entry("cron", "t"),)), "topics and cron both bring a shortcut 't'"),
    "pages": (
        Feature("cron", pages=(Mount("topics/", "x"), Mount("messages/", "x"))),
        "messages and cron both bring pages under 'messages/'",
    ),
    "owned": (
        Feature("cron", owned=(Owned("topics", "name", NOBODY, NOBODY, "x"),)),
        "topics and cron both bring rows that a team owns as 'topics'",
    ),
    "audit_words": (
        Feature("cron", audit_words={"topic.pause": "x"}),
        "topics and cron both bring words for the audited act 'topic.pause'",
    ),
    "audit_sides": (
        Feature("cron", audit_sides={"dead_letter.edit": "x"}),
        "deadletters and cron both bring what is shown of the audited act 'dead_letter.edit'",
    ),
    "duties": (
        Feature("cron", duties=(f"{__name__}:breaker",)),
        "consumers and cron both bring a duty 'breaker-gauge'",
    ),
    "alerts": (Feature("cron", alerts=(f"{__name__}:KINDS",)), "traffic and cron both bring an alert kind 'lag'"),
    "facts": (Feature("cron", facts=(f"{__name__}:FACTS",)), "evidence and cron both bring a fact kind"),
    "projection": (
        Feature("cron", projection=f"{__name__}:PROJECTION"),
        "messages and cron both bring a projection of the engine 'bus'",
    ),
    "operations": (
        Feature("cron", operations=(f"{__name__}:REDRIVE",)),
        "deadletters and cron both bring a kind of operation 'redrive'",
    ),
    "examples": (Feature("cron", examples=(f"{__name__}:LIVELY",)), "hotel and cron both bring an example 'hotel'"),
}
#: Who collects each, and asks for it.
COLLECTORS: dict[str, tuple[object, Callable[[], object]]] = {
    "acts": (acts, acts.acts.__wrapped__),
    "view": (acts, acts.acts.__wrapped__),
    "subjects": (subjects, subjects.kinds.__wrapped__),
    "roles": (roles, roles.roles.__wrapped__),
    "menu": (menu, menu.entries.__wrapped__),
    "shortcut": (menu, menu.entries.__wrapped__),
    "owned": (owned, owned.kinds),
    "audit_words": (words, words._declared.__wrapped__),
    "audit_sides": (sides, sides._declared.__wrapped__),
    "duties": (duties, duties.all_duties),
    "alerts": (alert_kinds, alert_kinds.kinds.__wrapped__),
    "facts": (fact_kinds, fact_kinds.kinds.__wrapped__),
    "projection": (booking, booking._makers.__wrapped__),
    "operations": (operation_kinds, operation_kinds._kinds.__wrapped__),
    "examples": (examples, examples.declared),
}


@pytest.mark.parametrize("what", COLLECTORS)
def test_who_collects_them_refuses_two_of_one_name(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stranger, said = AGAIN[what]
    collector, collect = COLLECTORS[what]
    collect()
    monkeypatch.setattr(collector, "features", lambda: (*features(), stranger))
    with pytest.raises(ConfigurationError, match=said):
        collect()


@pytest.fixture
def beside(monkeypatch: pytest.MonkeyPatch) -> Callable[[Feature], None]:
    """Installs a stranger's feature as far as the check of declarations sees it."""

    def install(feature: Feature) -> None:
        found = (*by_app(), ("tests", feature))
        monkeypatch.setattr(declared, "by_app", lambda: found)

    return install


@pytest.mark.parametrize("what", AGAIN)
def test_the_check_names_both(what: str, beside: Callable[[Feature], None]) -> None:
    stranger, said = AGAIN[what]
    beside(stranger)
    with pytest.raises(ConfigurationError, match=said) as refused:
        declared.check_names()
    assert refused.value.remedy == "Rename one of the two, or install only one of the two features (HBUS_APPS)."


def leads_to(address: str, name: str, app_name: str = "") -> str:
    """A module of addresses."""
    made = ModuleType(re.sub(r"\W", "_", f"cron_urls_{address}_{name}_{app_name}"))
    made.__dict__.update(urlpatterns=[path(address, lambda request: HttpResponse(), name=name)], app_name=app_name)
    sys.modules[made.__name__] = made
    return made.__name__


#: What of addresses a stranger brings that is another's already, and the words for it.
ADDRESSES = {
    "topics and cron both bring the address '/topics/<str>/'": Feature(
        "cron", pages=(Mount("", leads_to("topics/<str:that>/", "that")),)
    ),
    "topics and cron both bring the endpoint '/api/v1/topics/<str>'": Feature(
        "cron", api=(leads_to("topics/<str:that>", "that"),)
    ),
    "topics and cron both bring pages named 'topics'": Feature(
        "cron", pages=(Mount("cron/", leads_to("x", "x", "topics")),)
    ),
    "topics and cron both bring an endpoint named 'topics'": Feature("cron", api=(leads_to("cron", "topics"),)),
}


@pytest.mark.parametrize("said", ADDRESSES)
def test_addresses_and_the_names_that_lead_to_them_are_compared(said: str, beside: Callable[[Feature], None]) -> None:
    beside(ADDRESSES[said])
    with pytest.raises(ConfigurationError, match=re.escape(said)):
        declared.check_names()


def test_what_cannot_be_asked_for_its_name_is_told_as_the_apps(beside: Callable[[Feature], None]) -> None:
    beside(Feature("cron", alerts=(f"{__name__}:BREAKER",)))
    with pytest.raises(ConfigurationError, match="What the feature of the app 'tests' declares in alerts cannot be"):
        declared.check_names()


def stands_on_a_store() -> Bare:
    raise ConfigurationError("There is no store: REDIS_URL is not set.", remedy="Start one.", field="REDIS_URL")


def test_before_the_first_start_duties_that_need_a_store_are_left_to_the_keeper(
    beside: Callable[[Feature], None],
) -> None:
    unasked = f"{__name__}:stands_on_a_store"
    beside(Feature("cron", duties=(unasked,)))
    declared.check_names()
    beside(Feature("cron", duties=(unasked, "hbus_console.accounts.housekeeping:SignInExpiry")))
    with pytest.raises(ConfigurationError, match="accounts and cron both bring a duty 'sign-in-expiry'"):
        declared.check_names()


def test_what_ours_bring_is_theirs_alone() -> None:
    assert all(named.by_name(features()) for named in declared.CHECKED)


def test_two_features_and_two_things_of_one_feature_may_not_share_a_name_either() -> None:
    with pytest.raises(ConfigurationError, match="a and b both bring a feature 'cron'"):
        unique("a feature", [("a", "cron", 1), ("b", "cron", 2)])
    with pytest.raises(ConfigurationError, match="cron brings an act 'run' twice"):
        unique("an act", [("cron", "run", 1), ("cron", "run", 2)])
    assert list(unique("an act", [("b", "2", 1), ("a", "1", 2)]).items()) == [("2", 1), ("1", 2)]


#: Fields of a feature whose things bear no name that another could bring, and why.
NAMELESS = {
    "name": "compared where features are found",
    "offers": "modules of its own package",
    "audit_related": "all are asked, and each draws its own",
    "concerns": "all are asked, and each tells its own",
    "search": "all are asked, and each tells its own",
    "live": "told at run time",
    "ledger_models": "models of its own app",
    "kept": "words of its own, told together",
    "tones": "what others mean by a word goes on beside it",
    "needs_role": "any feature may need any role",
    "probes": "told under the name of their feature",
    "prepare": "all are called",
}


def test_every_field_of_a_feature_is_compared_by_name_or_bears_none() -> None:
    compared = {each.field for each in declared.CHECKED}
    assert compared | NAMELESS.keys() == {each.name for each in fields(Feature)}
    assert compared & NAMELESS.keys() == set()


def test_what_is_compared_by_name_is_collected_by_the_same() -> None:
    """So that nobody collects what the check does not see, nor by another name."""
    home = "hbus_console/registry/names.py"
    table = {name for name, value in vars(names).items() if isinstance(value, names.Named)}
    assert len(table) == len(names.NAMED)
    used = {
        node.id
        for path, tree in python("hbus_console")
        if named(path) not in (home, "hbus_console/registry/declared.py")
        for node in ast.walk(tree)
        if isinstance(node, ast.Name)
    }
    assert table - used == set()
