"""A book that is asked often: which of its rules may cover a service and resource is looked up once."""

from __future__ import annotations

from fnmatch import fnmatchcase

from engine.quota.book import Book, Rule
from engine.quota.periods import Period
from engine.quota.terms import Name, Terms

#: Services with resources that are remembered: of most installations all.
MOST_REMEMBERED = 10_000


class BookIndex:
    """Resolves as :meth:`~engine.quota.book.Book.resolve` does. Not thread-safe for writing, harmless where it is not:
    what two threads look up at once they find both.
    """

    def __init__(self, book: Book) -> None:
        self.book = book
        self.shadows = any(rule.shadow for rule in book.rules)
        self._of_tokens = tuple(rule for rule in book.rules if rule.period is not Period.AT_ONCE)
        self._by_service: dict[str, tuple[Rule, ...]] = {}
        self._found: dict[tuple[str, str], tuple[Rule, ...]] = {}

    def resolve(self, name: Name, at_ms: int) -> Terms:
        return self.book.resolve(name, at_ms, self._among(name.service, name.resource))

    def _among(self, service: str, resource: str) -> tuple[Rule, ...]:
        found = self._found.get((service, resource))
        if found is None:
            if len(self._found) >= MOST_REMEMBERED:
                self._found = {}
            found = tuple(rule for rule in self._of(service) if fnmatchcase(resource, rule.resource))
            self._found[service, resource] = found
        return found

    def _of(self, service: str) -> tuple[Rule, ...]:
        found = self._by_service.get(service)
        if found is None:
            if len(self._by_service) >= MOST_REMEMBERED:
                self._by_service = {}
            found = self._by_service[service] = tuple(
                rule for rule in self._of_tokens if fnmatchcase(service, rule.service)
            )
        return found
