"""What entries tell of payloads, or of what was asked about them, is asked of a feature whenever one is read."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

import pytest
from django.utils import timezone

from hbus_console.audit import sides
from hbus_console.audit.models import AuditEntry
from hbus_console.registry.loading import resolve
from tests.source import ROOT

pytestmark = pytest.mark.django_db
#: By these names entries tell of payloads, or of what somebody asked about them.
NAMES = frozenset(("payload", "filter", "spec"))
#: Who records entries and uses such a name, and the act that it is told of.
RECORDED = {
    "deadletters/services.py": "dead_letter.edit",
    "operations/services.py": "operation.start",
    "replays/masked.py": "payload.reveal",
    # How the log itself was narrowed.
    "audit/export.py": "",
}
_RECORDS = {("hbus_console.audit.services", "record"), ("hbus_console.audit.decisions", "StoreDecision")}


def _found() -> Iterator[str]:
    folder = ROOT / "hbus_console"
    for path in sorted(folder.rglob("*.py")):
        nodes = list(ast.walk(ast.parse(path.read_text())))
        brought = {
            (node.module, each.name) for node in nodes if isinstance(node, ast.ImportFrom) for each in node.names
        }
        keys = {
            key.value
            for node in nodes
            if isinstance(node, ast.Dict)
            for key in node.keys
            if isinstance(key, ast.Constant) and isinstance(key.value, str)
        }
        if brought & _RECORDS and keys & NAMES:
            yield str(path.relative_to(folder))


def test_each_act_whose_entries_tell_of_payloads_says_what_is_shown_of_them() -> None:
    assert set(_found()) == set(RECORDED)
    assert {action for action in RECORDED.values() if action} == set(sides.kept_from_search())


@pytest.mark.parametrize("side", [None, "text", [1], {}, {"filter": 1, "spec": 1}, {"payload": None}])
@pytest.mark.parametrize("action", sides.kept_from_search())
def test_each_entry_gets_its_own_two_sides_whatever_stands_there(action: str, side: Any) -> None:
    entries = [AuditEntry(action=action, namespace="gone", at=timezone.now(), before=side, after=side)] * 2
    assert len(resolve(sides._declared()[action])(entries)) == 2
    assert [each.action for each in sides.shown(entries)] == [action, action]
