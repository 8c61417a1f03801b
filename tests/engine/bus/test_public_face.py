from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import engine.bus


def test_everything_named_is_there() -> None:
    assert len(set(engine.bus.__all__)) == len(engine.bus.__all__)
    assert all(hasattr(engine.bus, name) for name in engine.bus.__all__)


def test_type_checkers_and_programs_find_the_same() -> None:
    tree = ast.parse(Path(engine.bus.__file__).read_text(encoding="utf-8"))
    said = {
        alias.name: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("engine.")
        for alias in node.names
    }
    assert sorted(said) == sorted(engine.bus.__all__)
    for name, module in said.items():
        assert getattr(engine.bus, name) is getattr(import_module(str(module)), name)


def test_what_is_not_named_is_not_there() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Consumption'"):
        engine.bus.Consumption  # noqa: B018


def test_who_needs_little_of_the_bus_loads_little_of_it() -> None:
    program = (
        "import sys, engine.bus.subjects; print(*sorted(each for each in sys.modules if each[:10] == 'engine.bus'))"
    )
    told = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert told.stdout.split() == ["engine.bus", "engine.bus.subjects"]


def test_the_engine_needs_neither_django_nor_celery_nor_an_http_client_to_start() -> None:
    program = (
        "import sys; from engine.bus import *;"
        "print(sorted({name.partition('.')[0] for name in sys.modules} & {'django', 'celery', 'kombu', 'httpx'}))"
    )
    told = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert told.stdout.strip() == "[]"
