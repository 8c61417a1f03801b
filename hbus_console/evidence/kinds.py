"""What the engines of this installation declare of their facts."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from engine.core.fact_kinds import FactCatalog, FactKind
from hbus_console.registry.loading import features, resolve


@cache
def catalogs() -> tuple[FactCatalog, ...]:
    """Every engine's declaration, as the features name them."""
    return tuple(resolve(path) for feature in features() for path in feature.facts)


@cache
def kinds() -> Mapping[str, FactKind]:
    """Every kind by its name. Raises ``ValueError`` when two engines declare the same."""
    found: dict[str, FactKind] = {}
    for catalog in catalogs():
        for kind in catalog.kinds:
            if kind.name in found:
                raise ValueError(f"the fact kind {kind.name!r} is declared twice; one is of engine {catalog.engine!r}")
            found[kind.name] = kind
    return MappingProxyType(found)


def catalog_of(kind: str) -> FactCatalog | None:
    """The declaration that a kind belongs to; ``None`` for one that nobody declares."""
    return _catalogs_by_kind().get(kind)


def words_of(kind: str) -> str:
    """What happened, as a clause; the kind itself where nobody declares it (any more)."""
    declared = kinds().get(kind)
    return declared.sentence if declared else kind.replace("_", " ")


def tone_of(kind: str) -> str:
    """The colour of a kind; ``neutral`` for one that nobody declares (any more)."""
    declared = kinds().get(kind)
    return declared.tone.value if declared else "neutral"


@cache
def _catalogs_by_kind() -> Mapping[str, FactCatalog]:
    return {kind: catalog for catalog in catalogs() for kind in (each.name for each in catalog.kinds)}
