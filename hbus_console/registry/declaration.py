"""What a feature brings to the console, declared in its ``feature.py`` and nowhere else.

Code is named by dotted path (``package.module:attribute``) and resolved on first use (:func:`~.loading.resolve`), so
that a process imports only what it runs: a supervisor that asks for the roles loads no page.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hbus_console.access.acts import VIEW, Act

#: ``package.module:attribute``.
Dotted = str
#: ``package.module``.
Module = str
#: In place of names of models: every model of the app.
ALL_MODELS = "*"


@dataclass(frozen=True)
class MenuEntry:
    """One line of the menu. ``key`` is what pages name as their ``nav``; ``shortcut`` follows the key g."""

    key: str
    title: str
    #: An icon of the set, such as ``outline/home``.
    icon: str
    url_name: str
    shortcut: str
    #: One of :data:`LAST_SECTIONS`, or an engine's own such as ``Bus``; see :func:`hbus_console.ui.menu.entries`.
    section: str
    #: Its place in the section, the smallest on top.
    place: int
    act: Act = VIEW
    #: A count beside it: ``count(actor) -> int``, or words where it counts no further; nothing is drawn for 0.
    badge: Dotted = ""
    #: The live cell (see :attr:`Feature.live`) that carries the same count; empty: it moves with the next page only.
    badge_live: str = ""


#: What people work with stands before these: the sections of the engines, in the order of their features.
LAST_SECTIONS = ("Governance", "System")


@dataclass(frozen=True)
class Mount:
    """Pages: an ``urls`` module under a prefix."""

    prefix: str
    urls: Module


@dataclass(frozen=True)
class SubjectKind:
    """A kind of :class:`~engine.core.subject.Subject` that the feature answers for."""

    name: str
    #: As sentences say it: ``dead letter``.
    words: str
    #: ``address(subject) -> str``: the page of one, empty when it has none (any more).
    address: Dotted = ""
    #: ``named(namespace, name) -> str``: likewise by its own name, where that may be one that a subject cannot hold.
    named: Dotted = ""
    #: Its names mean something inside their namespace only, so that sentences say ``namespace/name``.
    local: bool = False
    #: The kind of its namespace, where that is a thing of its own: ``topic``.
    within: str = ""
    #: ``outcomes(made) -> list[Fate]``: what became of those that an operation made, each in the place of its
    #: :class:`~hbus_console.operations.outcomes.Made`; empty where that is nothing to wait for.
    outcomes: Dotted = ""
    #: ``holding(subjects) -> dict[Subject, str]``: what holds what waits there, as the end of a sentence: "behind the
    #: open breaker of billing"; nothing for those that hold nothing.
    holding: Dotted = ""


@dataclass(frozen=True)
class ProcessRole:
    """One kind of process."""

    name: str
    summary: str
    #: ``probe(installation, slot, pid) -> str``: empty when the process is ready, else the reason.
    probe: Dotted
    #: ANSI colour of its name on the terminal.
    tone: int
    #: ``run(slot) -> None``: its work, in the foreground; empty for a program of others.
    run: Dotted = ""
    #: ``command(installation) -> list[str]``: what starts a program of others.
    command: Dotted = ""
    #: ``address(installation) -> str``: where it listens.
    address: Dotted = ""
    #: The roles it stands on; of these only what runs here is waited for.
    needs: tuple[str, ...] = ("store", "nsqd")
    #: What it gets between SIGTERM and SIGKILL under the supervisor, in seconds.
    grace_s: float = 3.8
    #: More than one may run on one machine.
    many: bool = False
    #: Starts unasked; one that does not starts where it is named or needed.
    usual: bool = True
    #: Stamps that its loop turns, so that its silence is seen.
    stamps: bool = True
    #: What does not happen while none of it lives, as a clause: "no subscription is read". ``{kept}`` in it is what the
    #: features say of themselves, see :attr:`Feature.kept`.
    without: str = ""
    #: ``unneeded() -> bool``: whether nothing is there that it could do, so that nobody misses it; empty: never.
    unneeded: Dotted = ""
    #: What a page says of it then: "there is no job".
    unneeded_words: str = ""
    #: ``tell() -> tuple[str, str]``: of a role that lives, what else is to be said to who sees every namespace, and its
    #: tone, which everybody sees (empty: none).
    telling: Dotted = ""
    #: What a sentence calls one of it: "No worker for jobs is alive"; empty: its name.
    words: str = ""
    #: Its place in the starting order, the smallest first.
    place: int = 50


@dataclass(frozen=True)
class Owned:
    """Rows of the feature that a team answers for, by a foreign key ``team``."""

    #: The name under which a team reaches them, and what they are called: ``topics``.
    relation: str
    #: The field of a row that names its namespace: ``name``, ``topic__name``.
    namespace: str
    #: ``text(row) -> str``: what a list of them calls one.
    text: Dotted
    #: ``address(row) -> str``: its page.
    address: Dotted
    #: The list of them, which takes ``?owner=``.
    url_name: str
    #: ``changed(rows) -> None``: their team has another name or contact; called in the transaction of that.
    changed: Dotted = ""


@dataclass(frozen=True)
class Feature:
    """One concern of the console, declared whole."""

    name: str
    #: Its modules that sisters may import, by their names inside its package; ``feature`` itself always is one. What is
    #: not named here may change without asking them.
    offers: tuple[str, ...] = ()
    menu: tuple[MenuEntry, ...] = ()
    pages: tuple[Mount, ...] = ()
    #: Modules with ``urlpatterns`` under ``/api/v1/``.
    api: tuple[Module, ...] = ()
    acts: tuple[Act, ...] = ()
    subjects: tuple[SubjectKind, ...] = ()
    owned: tuple[Owned, ...] = ()
    #: An action of the audit log -> what was done, to stand between actor and target.
    audit_words: Mapping[str, str] = field(default_factory=dict)
    #: An action of the audit log -> ``sides(entries) -> list[audit.sides.Sides]``: what may be shown of each entry's
    #: before and after by now, in their order; no search looks into those of these actions.
    audit_sides: Mapping[str, Dotted] = field(default_factory=dict)
    #: ``related(actor, entry) -> list[audit.links.Group]``: what of this feature belongs to an entry.
    audit_related: Dotted = ""
    #: What engines declare of their facts: :class:`~engine.core.fact_kinds.FactCatalog`.
    facts: tuple[Dotted, ...] = ()
    #: ``make(each) -> Projection``: books an engine's facts, see :class:`~hbus_console.evidence.booking.Projection`.
    projection: Dotted = ""
    #: The models of its app whose tables lie in the ledger database, by their names, or :data:`ALL_MODELS`: all that
    #: its projection inserts into, for a projection has no other database. A migration's ``RunPython`` and ``RunSQL``
    #: say by ``hints={"model_name": …}`` whose database is theirs; those of :data:`ALL_MODELS` need not.
    ledger_models: tuple[str, ...] = ()
    #: What of the feature stands still while no keeper runs its duties, in a word or two: ``delays``.
    kept: tuple[str, ...] = ()
    #: ``make() -> Duty``, one each; the keeper runs them.
    duties: tuple[Dotted, ...] = ()
    roles: tuple[ProcessRole, ...] = ()
    #: Tuples of :class:`~hbus_console.alerts.kinds.AlertKind`.
    alerts: tuple[Dotted, ...] = ()
    #: :class:`~hbus_console.registry.judging.AuditCheck`, one each: what an audit of the bus judges beside topics.
    audits: tuple[Dotted, ...] = ()
    #: :class:`~hbus_console.registry.reading.TopicReader`, one each: what reads topics beside their subscriptions.
    topic_readers: tuple[Dotted, ...] = ()
    #: ``concerns(look) -> list[Concern]``: what needs a person.
    concerns: tuple[Dotted, ...] = ()
    #: ``find(actor, text) -> list[Group]``: what the search box finds.
    search: tuple[Dotted, ...] = ()
    #: ``cells(now_ms, scopes) -> LiveCells``: what moves on open pages, as texts of single figures and as marks, the
    #: names of what pages show with a token that differs when it may have changed. Asked every two seconds for every
    #: set of scopes that somebody looks with: a few queries, however many rows there are.
    live: tuple[Dotted, ...] = ()
    #: The colour of its states where they are shown, by their words: ``ok``, ``info``, ``warn``, ``bad`` or ``act`` (a
    #: person's). A word that others use too means this where the page says whose it is: ``{% state word of="jobs" %}``.
    tones: Mapping[str, str] = field(default_factory=dict)
    #: :class:`~hbus_console.overview.examples.Example`, one each: what an empty console offers to start.
    examples: tuple[Dotted, ...] = ()
    #: Kinds of operations.
    operations: tuple[Dotted, ...] = ()
    #: ``make() -> list[Probe]``: what the feature stands on; ``/readyz`` and the cluster page ask each how it is, see
    #: :class:`~hbus_console.registry.health.Probe`.
    probes: tuple[Dotted, ...] = ()
    #: ``needed() -> bool`` by role name: whether a role that is not usual must run here.
    needs_role: Mapping[str, Dotted] = field(default_factory=dict)
    #: ``prepare(say) -> None``: what a first start, or an upgrade, sets up once the tables are there. It is quick and
    #: harmless to repeat, and calls ``say`` with a line for what it had to do.
    prepare: tuple[Dotted, ...] = ()
