"""The store, wherever it is: one Redis or Valkey, one that Sentinels watch, or a cluster of them."""

from __future__ import annotations

from engine.core.store.address import StoreAddress, StoreKind
from engine.core.store.client import each_primary, open_client, open_nodes
from engine.core.store.conditions import Condition, condition_of
from engine.core.store.nodes import StoreNodes
from engine.core.store.slots import key_of, slot_of

__all__ = [
    "Condition", "StoreAddress", "StoreKind", "StoreNodes", "condition_of", "each_primary", "key_of", "open_client",
    "open_nodes", "slot_of",
]  # fmt: skip
