"""Patterns of policies as filters on rows, which find what the engine finds by :meth:`engine.quota.Rule.covers`.

No pattern makes a database think for long: SQLite's regular expressions are Python's, and these go back nowhere
(atomic groups, as :func:`fnmatch.translate` writes them); PostgreSQL's do not go back at all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import translate
from itertools import takewhile
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import CharField, F, Func, Lookup, Q
from django.db.models.lookups import Exact, In
from django.db.models.sql.compiler import SQLCompiler

from engine.quota.rule import SIGNS

Sql = tuple[str, tuple[str | int, ...]]


def fits(field: str, pattern: str) -> Q:
    """The rows whose service or resource a pattern covers."""
    if pattern == "*":
        return Q()
    return Q(FitsPattern(F(field), pattern)) if SIGNS & set(pattern) else Q(**{field: pattern})


def tenant_fits(pattern: str) -> Q:
    """The rows whose tenant it covers: without a stroke all programs of a person are that person."""
    if pattern == "*":
        return Q()
    if "/" in pattern:
        return fits("tenant", pattern)
    person = PersonOf("tenant")
    return Q(FitsPattern(person, pattern) if SIGNS & set(pattern) else Exact(person, pattern))


def having(tenants: Iterable[str], others: Iterable[str]) -> Q:
    """The rows of these and of their programs, but for ``others``, that have a plan of their own."""
    named = list(tenants)
    of_theirs = Q(In(PersonOf("tenant"), named)) & ~Q(tenant__in=[each for each in others if "/" in each])
    return Q(tenant__in=named) | of_theirs


class PersonOf(Func):
    """What stands before the first stroke: as :attr:`engine.quota.terms.Name.person`."""

    arity = 1
    output_field = CharField()

    def as_sqlite(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **extra_context: Any) -> Sql:
        template = "substr(%(expressions)s, 1, instr(%(expressions)s || '/', '/') - 1)"
        # The expression stands there twice; a column has no parameters that would.
        return super().as_sql(compiler, connection, template=template)

    def as_postgresql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **extra_context: Any) -> Sql:
        return super().as_sql(compiler, connection, template="split_part(%(expressions)s, '/', 1)")


class FitsPattern(Lookup):
    """A pattern with ``*``, ``?`` and ``[…]``, as :func:`fnmatch.fnmatchcase` has it. The letters before the first sign
    are compared first: of most patterns that is all.
    """

    lookup_name = "fits_pattern"
    prepare_rhs = False

    def as_sqlite(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper) -> Sql:
        return self._written(compiler, connection, "substr({}, 1, %s) = %s", "REGEXP", rf"\A{translate(str(self.rhs))}")

    def as_postgresql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper) -> Sql:
        return self._written(compiler, connection, "left({}, %s) = %s", "~", advanced(str(self.rhs)))

    def _written(
        self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, begins: str, sign: str, pattern: str
    ) -> Sql:
        sql, parameters = self.process_lhs(compiler, connection)
        letters = list(takewhile(lambda letter: letter not in SIGNS, str(self.rhs)))
        first = begins.format(sql), (*parameters, len(letters), "".join(letters))
        if self.rhs == "".join([*letters, "*"]):
            return first
        return f"({first[0]} AND {sql} {sign} %s)", (*first[1], *parameters, pattern)


def advanced(pattern: str) -> str:
    """The same as an advanced regular expression of PostgreSQL."""
    found, at = ["^"], 0
    while at < len(pattern):
        letter = pattern[at]
        at += 1
        end = _end_of_set(pattern, at) if letter == "[" else 0
        if end:
            inside, at = pattern[at:end], end + 1
            negated = inside.startswith("!")
            letters = re.sub(r"[\[\]\\^]", r"\\\g<0>", inside[1:] if negated else inside)
            found.append(f"[{'^' if negated else ''}{letters}]")
        else:
            found.append({"*": ".*", "?": "."}.get(letter) or re.escape(letter))
    return "".join([*found, "$"])


def _end_of_set(pattern: str, at: int) -> int:
    """Where the set that begins there ends; 0: it is none. A bracket that is its first letter is one of it."""
    first = at + (pattern[at : at + 1] == "!")
    return max(0, pattern.find("]", first + 1))
