"""Which seats a piece of work needs, by the rules of a book whose period is *at once*."""

from __future__ import annotations

from collections.abc import Callable

from engine.quota.book import Book, Rule, Whose
from engine.quota.protocol import MOST_LINKS, spelt
from engine.quota.seats import SeatLink
from engine.quota.terms import Name

#: Names whose seats are remembered: looking them up costs each rule a comparison.
MOST_REMEMBERED = 10_000


class SeatRules:
    """By the book that is in force whenever it is asked. Thread-safe."""

    def __init__(self, book: Callable[[], Book | None]) -> None:
        self._book = book
        self._known: tuple[Book | None, dict[tuple[str, str, str], tuple[SeatLink, ...]]] = None, {}

    def links(self, service: str, resource: str, tenant: str) -> tuple[SeatLink, ...]:
        """Of the rules that give each tenant seats of its own the one that is most about this tenant, and all that
        tenants share; those that only count likewise. Raises :class:`~engine.core.errors.BadInput` for what can be no
        name.
        """
        book = self._book()
        known, links = self._known
        if book is not known:
            links = {}
            self._known = book, links
        if book is None:
            return ()
        key = service, resource, tenant
        found = links.get(key)
        if found is None:
            if len(links) >= MOST_REMEMBERED:
                links.clear()
            found = links[key] = _links(book, Name(*key))
        return found


def _links(book: Book, name: Name) -> tuple[SeatLink, ...]:
    plan = book.plan_of(name)
    found: list[SeatLink] = []
    for shadow in (False, True):
        asked = Name(name.service, name.resource, name.tenant, shadow=shadow)
        covering = book.seat_index.covering(asked, plan)
        own = max((rule for rule in covering if rule.whose is Whose.EACH), key=Rule.rank, default=None)
        chosen = [*([own] if own else []), *(rule for rule in covering if rule.whose is Whose.TOGETHER)]
        found += [_link(rule, name, book.nodes) for rule in chosen[:MOST_LINKS]]
    return tuple(found)


def _link(rule: Rule, name: Name, nodes: int) -> SeatLink:
    owner = "" if rule.whose is Whose.TOGETHER else spelt(rule.subject(name))
    alone = max(1, int(rule.limit * rule.fallback / nodes))
    return SeatLink(spelt(rule.id), owner, int(rule.limit), rule.on_loss, alone, rule.shadow)
