"""Tokens for programs that run no node of ours: they ask over HTTP, and whatever they say is checked here.

Who they are and what they are held to is found on this side. That they gave back what they had spent nobody can see:
they might as well have spent it unasked. What holds is that all that is granted, less what is given back, stays within
the limits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, NamedTuple
from urllib.parse import quote

import msgspec
from msgspec import Meta

from engine.core.clock import Clock, SystemClock
from engine.core.errors import BadInput, QuotaExceeded
from engine.quota import Book
from engine.quota.book import Rule
from engine.quota.planes.grants import ASKING_MS, MOST_ASKING, Told
from engine.quota.protocol import LIFETIME_S, Alloc, Answer, Rate, Tokens, Want
from engine.quota.terms import LONGEST, Name, Terms
from hbus_console.access.permissions import SOMEWHERE, Actor, allows, require
from hbus_console.quotas.feature import QUOTA_WANT, QUOTA_WANT_FOR
from hbus_console.quotas.services.books import give, newest_book
from hbus_console.quotas.sight import OF_HBUS, OF_REQUESTS
from hbus_console.wiring import quota

#: A name that no key of the store can be mistaken by.
Word = Annotated[str, Meta(pattern="^[A-Za-z0-9._:-]+$", min_length=1, max_length=64)]
Part = Annotated[str, Meta(min_length=1, max_length=LONGEST)]


class TokensWanted(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """``asked`` tokens for ``service`` and ``resource``, where callers ask for ``demand`` a second. Of the answer
    ``returned_of``, ``returned`` tokens are unspent and void; ``repaid`` were spent without asking since the last
    answer. Repeated under its ``id`` within a minute, as the last one of its kind, it is answered as the first time.
    """

    id: Word
    service: Part
    resource: Part
    asked: Tokens
    demand: Rate = 0.0
    returned: Tokens = 0
    returned_of: Annotated[str, Meta(max_length=64)] = ""
    repaid: Tokens = 0


class Granted(NamedTuple):
    """What became of one; without ``alloc`` nothing limits it."""

    terms: Terms
    alloc: Alloc | None


class Limits(NamedTuple):
    """What holds for a tenant: no rules where nothing does."""

    tenant: str
    version: int
    terms: Terms
    rules: tuple[Rule, ...]


def want_tokens(
    actor: Actor, node: str, wanted: Sequence[TokensWanted], tenant: str = "", *, clock: Clock | None = None
) -> list[Granted]:
    """An answer to each. Raises ``Forbidden``, :class:`BadInput` naming the field, ``QuotaExceeded`` for more limiters
    than one person may have ask, and ``Unavailable``: what was to be given back with it is lost then.
    """
    clock = clock or SystemClock()
    tenant = _tenant(actor, tenant)
    _refuse_twice(wanted)
    for number, each in enumerate(wanted):
        _require_wanted(actor, each.service, each.resource, f"wants[{number}].")
    book, at_ms = newest_book(), clock.now_ms()
    terms = [_terms(book, each, number, tenant, at_ms) for number, each in enumerate(wanted)]
    asking = [number for number, each in enumerate(terms) if each.chain]
    wants = [_want(wanted[number], terms[number], actor, node, tenant) for number in asking]
    _refuse_too_many(actor, wants, at_ms)
    checked = _checked(wants, [wanted[number] for number in asking], at_ms)
    began = clock.monotonic()
    allocs = _ask(checked, book)
    if clock.monotonic() - began < LIFETIME_S:
        # Later, a repeat may have been remembered and forgotten meanwhile.
        done = [(want, alloc) for want, alloc in zip(checked, allocs, strict=True) if alloc.answer is Answer.GRANTED]
        quota.grants().keep(done, at_ms)
    found = dict(zip(asking, allocs, strict=True))
    return [Granted(each, found.get(number)) for number, each in enumerate(terms)]


def limits_of(actor: Actor, service: str, resource: str, tenant: str = "", *, clock: Clock | None = None) -> Limits:
    """What holds for the caller, or for who it may ask for. Raises ``Forbidden`` and :class:`BadInput`."""
    tenant = _tenant(actor, tenant)
    if service not in OF_REQUESTS:
        require(actor, QUOTA_WANT, resource)
    book = newest_book()
    name = Name(service, resource, tenant)
    terms = Terms() if book is None else book.resolve(name, (clock or SystemClock()).now_ms())
    rules = {} if book is None else {rule.id: rule for rule in book.rules}
    return Limits(tenant, terms.version, terms, tuple(rules[link.rule] for link in terms.chain))


def _tenant(actor: Actor, named: str) -> str:
    require(actor, QUOTA_WANT, SOMEWHERE)
    if named and named != actor.name:
        require(actor, QUOTA_WANT_FOR)
    return named or actor.name


def _require_wanted(actor: Actor, service: str, resource: str, field: str) -> None:
    """What all share is not for whoever may read something somewhere: nobody but the caller says that it was spent."""
    if service in OF_HBUS:
        raise BadInput(
            f"The tokens of {service} are taken by hbus itself, by what is done.",
            remedy="Ask for those of a service of your own.",
            field=f"{field}service",
        )
    require(actor, QUOTA_WANT, resource)


def _refuse_twice(wanted: Sequence[TokensWanted]) -> None:
    seen: set[tuple[str, str]] = set()
    for number, each in enumerate(wanted):
        if (each.service, each.resource) in seen:
            raise BadInput(
                f"{each.service} {each.resource} is wanted twice.",
                remedy="Ask for it once in a request.",
                field=f"wants[{number}].resource",
            )
        seen.add((each.service, each.resource))
        if each.returned and not each.returned_of:
            raise BadInput(
                "Nothing says of which answer tokens are returned.",
                remedy="Put its id into returned_of.",
                field=f"wants[{number}].returned_of",
            )


def _refuse_too_many(actor: Actor, wants: Sequence[Want], at_ms: int) -> None:
    """Raises ``QuotaExceeded`` for more limiters on nodes than one person may have ask. Who asks for any tenant is
    trusted with all of them, and asks for as many as there are.
    """
    if not wants or actor.user_id is None or allows(actor, QUOTA_WANT_FOR):
        return
    if not quota.grants().may_ask(str(actor.user_id), wants, at_ms):
        raise QuotaExceeded(
            f"More than {MOST_ASKING:,} limits on nodes would ask for {actor.name}: a node keeps its name.",
            again_s=ASKING_MS / 1000,
            field="node",
        )


def _terms(book: Book | None, each: TokensWanted, number: int, tenant: str, at_ms: int) -> Terms:
    try:
        name = Name(each.service, each.resource, tenant)
    except BadInput as error:
        field = "tenant" if error.field == "tenant" else f"wants[{number}].{error.field}"
        raise BadInput(error.what, remedy=error.remedy, field=field) from None
    return Terms() if book is None else book.resolve(name, at_ms)


def _want(each: TokensWanted, terms: Terms, actor: Actor, node: str, tenant: str) -> Want:
    """As the caller says it, but for what it is not believed: see :func:`_checked`."""
    return Want(
        each.id,
        # No node of ours is called so, nor one of another principal's.
        f"{quote(actor.name, safe='')}!{node}",
        str(Name(each.service, each.resource, tenant)),
        tenant,
        terms.chain,
        each.asked,
        each.demand,
        weight=terms.weight,
        floor=terms.floor,
        priority=terms.priority,
    )


def _checked(wants: Sequence[Want], wanted: Sequence[TokensWanted], at_ms: int) -> list[Want]:
    """With what they give back and repay, as far as it can be true."""
    memory, checked = quota.grants(), list(wants)
    returning = [number for number, each in enumerate(wanted) if each.returned]
    grants = memory.take_grants([(wants[number], wanted[number].returned_of) for number in returning])
    for number, grant in zip(returning, grants, strict=True):
        if grant is not None and grant.chain == wants[number].chain:
            returned = min(wanted[number].returned, grant.granted)
            checked[number] = msgspec.structs.replace(checked[number], returned=returned, born=grant.born)
    repaying = [number for number, each in enumerate(wanted) if each.repaid]
    lasts = memory.take_alone([wants[number] for number in repaying])
    for number, last in zip(repaying, lasts, strict=True):
        if last is not None:
            want = checked[number]
            # What spilled counts where it is of the buckets that what is returned is of.
            is_of_those = last.chain == want.chain and want.born in ((), last.born)
            checked[number] = msgspec.structs.replace(
                want,
                repaid=min(wanted[number].repaid, _could_spend(last, at_ms)),
                spilled=last.spilled if is_of_those else (),
                born=last.born if is_of_those else want.born,
            )
    return checked


def _could_spend(last: Told, at_ms: int) -> int:
    """Alone, since then: who says more would put others into debt who share the bucket."""
    return math.floor(last.fallback * max(0, at_ms - last.at_ms) / 1000)


def _ask(wants: Sequence[Want], book: Book | None) -> list[Alloc]:
    if not wants:
        return []
    plane = quota.control_plane()
    allocs = plane.want(wants)
    unknown = [number for number, alloc in enumerate(allocs) if alloc.answer is Answer.UNKNOWN_RULE]
    if unknown and book is not None and give(plane, book):
        # The control plane had lost the rules, or had not had them yet.
        for number, alloc in zip(unknown, plane.want([wants[number] for number in unknown]), strict=True):
            allocs[number] = alloc
    return allocs
