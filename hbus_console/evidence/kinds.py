"""What the engines of this installation declare of their facts."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from engine.core.fact_kinds import FactCatalog, FactKind
from hbus_console.registry.loading import features, resolve
from hbus_console.registry.names import FACT_KINDS


@cache
def catalogs() -> tuple[FactCatalog, ...]:
    """Every engine's declaration, as the features name them."""
    return tuple(resolve(path) for feature in features() for path in feature.facts)


@cache
def kinds() -> Mapping[str, FactKind]:
    """Every kind by its name. Raises ``ConfigurationError`` when two features bring the same."""
    return MappingProxyType(FACT_KINDS.by_name(features()))


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
