"""Who may import whom, where import-linter's contracts in pyproject.toml, which are run from here, do not reach."""

from __future__ import annotations

import ast
import importlib.util
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from hbus_console.registry.loading import features, resolve
from hbus_console.state import ROOT
from tests.source import named, python


def test_imports_keep_their_layers() -> None:
    checked = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert checked.returncode == 0, checked.stdout


def _imported(tree: ast.Module, modules: set[str]) -> set[str]:
    """Which of ``modules`` a file imports, inside functions and for types alone included."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            inner = {f"{node.module}.{alias.name}" for alias in node.names} & modules
            found |= inner or {node.module}
    return found & modules


@cache
def _modules() -> dict[str, ast.Module]:
    """What people's programs run, by dotted names."""
    return {
        named(path).removesuffix(".py").removesuffix("/__init__").replace("/", "."): tree
        for path, tree in python("engine", "hbus_console", "examples")
    }


@cache
def _imports() -> dict[str, set[str]]:
    """By module, which of the others it imports anywhere."""
    names = set(_modules())
    return {name: _imported(tree, names) for name, tree in _modules().items()}


def _in_circles(imports: dict[str, set[str]]) -> list[str]:
    """Those that import each other in a circle, or stand above one."""
    left = {name: found - {name} for name, found in imports.items()}
    # What imports nothing that is left is in no circle; what remains in the end is in one, or above it.
    while free := {name for name, found in left.items() if not found & left.keys()}:
        for name in free:
            del left[name]
    return sorted(left)


def test_no_modules_of_the_engine_import_each_other_in_a_circle() -> None:
    """So each can be read, and tested, with only what is below it."""
    assert _in_circles({name: found for name, found in _imports().items() if name.startswith("engine")}) == []


def _contracts() -> list[dict[str, Any]]:
    said = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return list(said["tool"]["importlinter"]["contracts"])


@cache
def _floors() -> tuple[frozenset[str], ...]:
    """The rooms of each floor of the console, the highest first, as the contract of the floors names them."""
    layers = next(contract["layers"] for contract in _contracts() if contract.get("exhaustive"))
    return tuple(frozenset(re.findall(r"[\w.]+", layer)) for layer in layers)


def test_every_feature_with_pages_keeps_the_layers_inside_an_app() -> None:
    inside = next(contract for contract in _contracts() if contract["name"].startswith("Inside an app"))
    with_pages = {f"hbus_console.{room}" for room in _sisters() if f"hbus_console.{room}.urls" in _modules()}
    assert with_pages - set(inside["containers"]) == set()


def _floor_of(room: str) -> int:
    return next(number for number, rooms in enumerate(_floors()) if room in rooms)


@cache
def _sisters() -> frozenset[str]:
    """The features that stand beside each other."""
    return _floors()[_floor_of("topics")]


#: The rooms that may know engines: the features, what stands above them, and what a process shares of each engine.
_MAY_KNOW_ENGINES = re.compile(r"hbus_console\.wiring\.(?!store\b|fact_log\b)\w+")


def _knows_engines(imports: Mapping[str, set[str]]) -> list[str]:
    """Modules of the ground that import of an engine more than its core."""
    above = set().union(*_floors()[: _floor_of("topics") + 1])
    return [
        f"{name} imports {what}"
        for name, found in imports.items()
        if name.startswith("hbus_console.") and _room(name) not in above and not _MAY_KNOW_ENGINES.match(name)
        for what in sorted(found)
        if re.match(r"engine\.(?!core\b)", what)
    ]


def test_the_ground_knows_no_engine_but_the_core() -> None:
    assert _knows_engines(_imports()) == []


@pytest.mark.parametrize(
    ("module", "what"),
    [
        ("evidence.totals", "engine.cron.fact_kinds"),
        ("body_limit", "engine.bus"),
        ("listing", "engine.bus.config"),
        ("log_setup", "engine.bus"),
        ("wiring.store", "engine.quota"),
        ("a_room_of_tomorrow.models", "engine.bus"),
    ],
)
def test_an_engine_on_the_ground_is_found(module: str, what: str) -> None:
    """Wherever it is imported, also in a room that nobody has put on a floor yet."""
    name = f"hbus_console.{module}"
    planted = _imports() | {name: _imports().get(name, set()) | {what}}
    assert _knows_engines(planted) == [f"{name} imports {what}"]


def test_what_features_and_their_wiring_know_of_engines_is_no_fault() -> None:
    planted = {f"hbus_console.{name}": {"engine.cron"} for name in ("topics.models", "wiring.cron", "bench.rig")}
    assert _knows_engines(planted | {"hbus_console.ui.live": {"engine.core.clock", "engine.core"}}) == []


_ENGINE = re.compile(r"engine\.(\w+)")


def _enter_other_engines(imports: Mapping[str, set[str]]) -> list[str]:
    """Modules of an engine that import of another one more than its public face. Below all of them lies the core."""
    return [
        f"{name} imports {what}"
        for name, found in imports.items()
        if (home := _ENGINE.match(name))
        for what in sorted(found)
        if (other := _ENGINE.match(what))
        if other[1] not in {home[1], "core"} and what != other[0]
    ]


def test_an_engine_knows_of_another_one_its_public_face_alone() -> None:
    assert _enter_other_engines(_imports()) == []


@pytest.mark.parametrize(
    "what",
    [
        "engine.bus.consuming.worker",
        "engine.bus.transports.redis_stream.receiver",
        "engine.bus.errors",
        "engine.pipeline.steps",
    ],
)
def test_an_engine_inside_another_one_is_found(what: str) -> None:
    planted = _imports() | {"engine.delay.shards": {what, "engine.bus", "engine.core.clock", "engine.delay.levels"}}
    assert _enter_other_engines(planted) == [f"engine.delay.shards imports {what}"]


#: What of the bus a transport may import: the contract, and what several of them need to keep it. All else is above.
_BESIDE_THE_CONTRACT = {
    f"engine.bus.{name}"
    for name in (
        "bounds",
        "bulk",
        "chunking",
        "config",
        "consumer_names",
        "dead_entries",
        "errors",
        "many_groups",
        "not_browsable",
        "optional",
        "partitions",
        "replicas",
        "rereading",
        "transport",
    )
}


def _package_of(module: str) -> str:
    """The transport that a module belongs to, such as ``engine.bus.transports.nsq``; empty for another module."""
    parts = module.split(".")
    return ".".join(parts[:4]) if parts[:3] == ["engine", "bus", "transports"] and len(parts) > 3 else ""


def _know_more_than_the_contract(imports: Mapping[str, set[str]]) -> list[str]:
    """Transports, and what stands beside the contract, that import of the engines what lies above it, or each other."""
    return [
        f"{name} imports {what}"
        for name, found in imports.items()
        if _package_of(name) or name in _BESIDE_THE_CONTRACT
        for what in sorted(found)
        if what not in _BESIDE_THE_CONTRACT and not re.match(r"engine\.core\b", what)
        if not (_package_of(name) and _package_of(what) == _package_of(name))
    ]


def test_transports_know_the_contract_and_neither_what_is_above_it_nor_each_other() -> None:
    assert _know_more_than_the_contract(_imports()) == []
    keeping = (found for name, found in _imports().items() if _package_of(name) or name in _BESIDE_THE_CONTRACT)
    used = set().union(*keeping)
    assert sorted(_BESIDE_THE_CONTRACT - used) == [], "no transport needs it"


@pytest.mark.parametrize(
    ("module", "what"),
    [
        ("transports.nsq.transport", "engine.bus.message"),
        ("transports.redis_stream.topic", "engine.bus.consuming.worker"),
        ("transports.memory.log", "engine.bus.transports.nsq.http"),
        ("transports.of_tomorrow", "engine.bus.producer"),
        ("transports.nsq.http", "engine.quota"),
        ("replicas", "engine.bus.catalog"),
    ],
)
def test_a_transport_that_knows_more_is_found(module: str, what: str) -> None:
    name = f"engine.bus.{module}"
    planted = _imports() | {name: _imports().get(name, set()) | {what}}
    assert _know_more_than_the_contract(planted) == [f"{name} imports {what}"]


@cache
def _between_sisters() -> tuple[tuple[str, str], ...]:
    """Every import of one feature's module by another feature: who, and what."""
    return tuple(
        (name, imported)
        for name, found in _imports().items()
        for imported in sorted(found)
        if {_room(name), _room(imported)} <= _sisters() and _room(name) != _room(imported)
    )


def _room(module: str) -> str:
    return module.split(".")[1] if module.startswith("hbus_console.") else ""


def test_features_import_of_each_other_only_what_is_offered() -> None:
    offered = {
        f"hbus_console.{feature.name}.{module}"
        for feature in features()
        if feature.name in _sisters()
        for module in ("feature", *feature.offers)
    }
    assert [f"{name} imports {what}" for name, what in _between_sisters() if what not in offered] == []
    used = {what for _, what in _between_sisters()} | {f"hbus_console.{name}.feature" for name in _sisters()}
    assert sorted(offered - used) == [], "offered, and no sister takes it"


def test_the_dotted_paths_of_a_feature_lead_into_its_own_package_or_an_engine() -> None:
    """What a sister brings, she declares herself."""
    for feature in features():
        for declared in fields(feature):
            for text in _dotted(getattr(feature, declared.name)):
                other = _room(text.partition(":")[0])
                assert text.startswith("engine.") or other not in _sisters() - {feature.name}, f"{feature.name}: {text}"


#: Modules by which a feature is looked at. Whoever looks at a topic wants its subscriptions, lag and dead letters
#: beside it, and who looks at one of these its topic: pages lead to each other, so what draws them does.
SHOWING = {"views", "api", "urls", "pages", "standing", "concerns", "alerts", "asyncapi"}
#: A topic is created with its first schema, and a schema is one of a topic: one thing, in two apps.
ONE_THING = {"schemas": "topics"}


def _shows(module: str) -> bool:
    inner = module.split(".")[2:3]
    return bool(inner) and (inner[0] in SHOWING or inner[0].endswith("_page"))


def test_what_features_do_is_in_no_circle() -> None:
    """Rows, services, duties: each feature can be understood with only those below it, whatever its pages show."""
    doing = [(name, what) for name, what in _between_sisters() if not _shows(name) and not name.endswith(".feature")]
    below: dict[str, set[str]] = {ONE_THING.get(name, name): set() for name in _sisters()}
    for name, what in doing:
        # Acts and words of a sister need nothing but what she declares.
        if not what.endswith(".feature"):
            below[ONE_THING.get(_room(name), _room(name))].add(ONE_THING.get(_room(what), _room(what)))
    assert _in_circles(below) == []
    assert [f"{name} imports {what}" for name, what in doing if _shows(what)] == []


@cache
def _late_imports(tree: ast.Module) -> dict[int, ast.stmt]:
    """The imports inside functions, by the line they begin on."""
    nodes = list(ast.walk(tree))
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return {
        node.lineno: node
        for node in nodes
        if isinstance(node, ast.Import | ast.ImportFrom)
        if any(function.lineno <= node.lineno <= (function.end_lineno or 0) for function in functions)
    }


def test_an_import_inside_a_function_says_why() -> None:
    """In a comment above it, or above the imports it stands among: what it saves, or what must be ready before."""
    silent = []
    for path, tree in python("hbus_console", "engine", "examples", "manage.py"):
        lines, late = path.read_text(encoding="utf-8").splitlines(), _late_imports(tree)
        ends = {node.end_lineno: begin for begin, node in late.items()}
        for begin in late:
            first = begin
            while first - 1 in ends:
                first = ends[first - 1]
            if not lines[first - 2].lstrip().startswith("# "):
                silent.append(f"{named(path)}:{begin}")
    assert silent == []


def test_no_import_that_comes_late_hides_a_circle() -> None:
    """Neither inside a function nor for types alone: what is imported so does not lead back to who imports it."""
    hidden = [
        f"{name}:{node.lineno}"
        for name, tree in _modules().items()
        for node in (*_late_imports(tree).values(), *_for_types(tree))
        if name in _reached(_imported(ast.Module([node], []), set(_modules())))
    ]
    assert hidden == []


def _for_types(tree: ast.Module) -> Iterator[ast.stmt]:
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            yield from node.body


def _reached(start: set[str]) -> set[str]:
    found: set[str] = set()
    ahead = set(start)
    while ahead:
        found |= ahead
        ahead = {further for name in ahead for further in _imports()[name]} - found
    return found


_IN_A_STRING = re.compile(
    r"^\s*from ((?:hbus_console|engine|examples)(?:\.\w+)*) import (\w+(?: as \w+)?(?:, \w+)*)", re.M
)


def test_programs_in_strings_import_what_there_is() -> None:
    """Tests hand programs to processes of their own as text, which neither linter nor type checker reads."""
    lost = []
    for path, tree in python("tests"):
        for node in ast.walk(tree):
            if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
                continue
            for module, names in _IN_A_STRING.findall(node.value):
                for name in names.split(","):
                    wanted = name.split(" as ")[0].strip()
                    found = importlib.import_module(module) if importlib.util.find_spec(module) else None
                    if not hasattr(found, wanted) and not importlib.util.find_spec(f"{module}.{wanted}"):
                        lost.append(f"{named(path)}: from {module} import {wanted}")
    assert lost == []


def test_every_dotted_path_of_a_feature_leads_somewhere() -> None:
    """Declarations are resolved on first use, so a wrong one would be found by whoever uses it first."""
    for feature in features():
        for declared in fields(feature):
            for text in _dotted(getattr(feature, declared.name)):
                assert resolve(text) is not None, f"{feature.name}: {text}"


def _dotted(value: object) -> Iterator[str]:
    if isinstance(value, str):
        if re.fullmatch(r"[a-z_]\w*(\.\w+)+:\w+", value):
            yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _dotted(inner)
    elif isinstance(value, tuple):
        for inner in value:
            yield from _dotted(inner)
    elif is_dataclass(value):
        for declared in fields(value):
            yield from _dotted(getattr(value, declared.name))
