"""What a feature may declare is a promise: each field has somebody who reads it."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import fields, make_dataclass

import pytest

from hbus_console.registry.declaration import Feature
from tests.source import named, python

#: What a feature is called where one is read.
_FEATURE = {"feature", "it"}
#: Read by a law of the house rather than by the console.
_LAWS = "tests/test_import_laws.py"


def _unread(declared: Iterable[str]) -> list[str]:
    read = {
        node.attr
        for path, tree in python("hbus_console", _LAWS)
        if not named(path).endswith("/feature.py") and "registry" in path.read_text(encoding="utf-8")
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in _FEATURE
    }
    return [name for name in declared if name not in read]


def test_every_field_of_a_feature_has_a_reader() -> None:
    assert _unread(each.name for each in fields(Feature)) == []


@pytest.mark.parametrize("name", ["weather", "probe", "menus"])
def test_a_field_that_nobody_reads_is_found(name: str) -> None:
    more = make_dataclass("More", [(name, tuple[str, ...], ())], bases=(Feature,), frozen=True)
    assert _unread(each.name for each in fields(more)) == [name]
