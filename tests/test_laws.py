"""The laws of the house that no linter knows. Import laws stand in pyproject.toml and are run from here too."""

from __future__ import annotations

import ast
import codecs
import importlib.util
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path

import pytest

from hbus_console.registry.loading import features, resolve
from hbus_console.state import ROOT

LONGEST_FILE = 450
LONGEST_TEMPLATE_LINE = 200
CODE = {".py", ".js", ".css", ".html", ".lua"}
#: Apps with pages: knowing one is knowing all. Each is a file, or a folder of the same name.
APPS = (
    "accounts",
    "audit",
    "teams",
    "topics",
    "schemas",
    "subscriptions",
    "publishing",
    "messages",
    "deadletters",
    "cluster",
    "alerts",
)
SAME_FILES = ("apps", "services", "views", "api", "urls")
#: Writing verbs of managers and models.
WRITES = {"create", "bulk_create", "get_or_create", "update_or_create", "update", "bulk_update", "delete", "save"}


@cache
def _files() -> tuple[Path, ...]:
    """What the repository holds, or would with the next commit."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return tuple(path for name in listed.stdout.split("\0") if name and (path := ROOT / name).is_file())


def _named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def _python(*folders: str) -> Iterator[tuple[Path, ast.Module]]:
    for path in _files():
        if path.suffix == ".py" and _named(path).startswith(folders) and "migrations" not in path.parts:
            yield path, _tree(path)


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


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


@pytest.mark.parametrize("app", APPS)
def test_every_app_has_the_same_files(app: str) -> None:
    folder = ROOT / "hbus_console" / app
    missing = [name for name in SAME_FILES if not ((folder / f"{name}.py").exists() or (folder / name).is_dir())]
    assert missing == []


@pytest.mark.parametrize("app", sorted(path.parent.name for path in ROOT.glob("hbus_console/*/apps.py")))
def test_every_app_has_tests_where_the_tree_says(app: str) -> None:
    folders = [ROOT / "tests" / "hbus_console" / app, ROOT / "tests" / app]
    assert [test for folder in folders for test in folder.rglob("test_*.py")]


def test_files_stay_short() -> None:
    long = {
        _named(path): lines
        for path in _files()
        if path.suffix in CODE and "migrations" not in path.parts
        if (lines := len(path.read_text(encoding="utf-8").splitlines())) > LONGEST_FILE
    }
    assert long == {}


def test_lines_of_templates_can_be_read() -> None:
    long = [
        f"{_named(path)}:{number}"
        for path in _files()
        if path.suffix == ".html" and "templates" in path.parts
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if len(line) > LONGEST_TEMPLATE_LINE
    ]
    assert long == []


def test_dialogs_are_drawn_by_their_tag() -> None:
    """``{% sheet %}`` alone writes one, and the page that shows how components look; see ``dialogs.py``."""
    pasted = {
        _named(path)
        for path in _files()
        if path.suffix == ".html" and '<div class="sheet"' in path.read_text(encoding="utf-8")
    }
    assert pasted == {"templates/components/sheet.html", "templates/ui/kit.html"}


def test_no_two_classes_of_the_engine_share_a_name() -> None:
    """Who reads a name in a log or a trace, or looks for it, finds one thing; private classes are no exception."""
    homes: dict[str, list[str]] = {}
    for path, tree in _python("engine"):
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                homes.setdefault(node.name, []).append(_named(path))
    assert {name: where for name, where in homes.items() if len(where) > 1} == {}


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
        _named(path).removesuffix(".py").removesuffix("/__init__").replace("/", "."): tree
        for path, tree in _python("engine", "hbus_console", "examples")
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


@cache
def _sisters() -> frozenset[str]:
    """The features that stand beside each other, as the contract of the floors names them."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    floor = next(layer for contract in contracts for layer in contract.get("layers", ()) if "topics" in layer.split())
    return frozenset(name for name in floor.split(" : ") if "." not in name)


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
    for path, tree in _python("hbus_console", "engine", "examples", "manage.py"):
        lines, late = path.read_text(encoding="utf-8").splitlines(), _late_imports(tree)
        ends = {node.end_lineno: begin for begin, node in late.items()}
        for begin in late:
            first = begin
            while first - 1 in ends:
                first = ends[first - 1]
            if not lines[first - 2].lstrip().startswith("# "):
                silent.append(f"{_named(path)}:{begin}")
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


def test_only_the_wiring_opens_transports() -> None:
    """Measurements open their own, beside the console's."""
    opening = {
        _named(path)
        for path, tree in _python("hbus_console", "examples")
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and any(alias.name == "open_transport" for alias in node.names)
    }
    assert {name for name in opening if not name.startswith("hbus_console/bench/")} == {"hbus_console/wiring/bus.py"}


def test_only_the_audit_service_writes_the_audit_log() -> None:
    writing = {
        _named(path)
        for path, tree in _python("hbus_console", "examples")
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and (
            (isinstance(node.func, ast.Name) and node.func.id == "AuditEntry")
            or (
                isinstance(node.func, ast.Attribute)
                and node.func.attr in WRITES
                and ast.unparse(node.func).startswith("AuditEntry.")
            )
        )
    }
    assert writing == {"hbus_console/audit/services.py"}


def _outer_layer(path: Path) -> bool:
    """A page, an endpoint or a command. The app ``api`` is the ground under endpoints: it keeps idempotency keys."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return parts[1] != "api" and bool({"views", "api", "commands"} & set(parts[2:]))


def test_pages_endpoints_and_commands_write_no_model() -> None:
    """They call services: ``X.objects…create()`` and ``row.save()`` have no place there.

    An endpoint may give up its idempotency record, which belongs to the request and not to any app.
    """
    writing = [
        f"{_named(path)}:{node.lineno} {ast.unparse(node.func)}"
        for path, tree in _python("hbus_console", "examples")
        if _outer_layer(path)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in WRITES
        if ".objects" in ast.unparse(node.func) or (node.func.attr in {"save", "delete"} and not node.args)
        if not ast.unparse(node.func).startswith("self._record.")
    ]
    assert writing == []


@pytest.mark.parametrize("path", [path for path in _files() if path.suffix == ".lua"], ids=_named)
def test_every_script_says_its_keys_arguments_and_result(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    header = "\n".join(line for line in lines[: next(i for i, line in enumerate(lines) if not line.startswith("--"))])
    body = "\n".join(lines)[len(header) :]
    assert header
    for word in ("KEYS", "ARGV"):
        assert word not in body or word in header, f"the header does not name {word}"
    if re.search(r"^return\b", body, re.MULTILINE):
        assert re.search(r"^-- (Result|Returns)\b", header, re.MULTILINE), "the header does not name the result"


def test_nothing_is_silenced_without_saying_what() -> None:
    blanket = re.compile(r"#\s*(type:\s*ignore(?!\[)|noqa(?!:\s*[A-Z]))")
    found = [
        f"{_named(path)}:{number}"
        for path in _files()
        if path.suffix == ".py"
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if blanket.search(line)
    ]
    assert found == []


#: What has no place in the repository, written so that this list is not itself a find: names of registries' hosts, of
#: the workshop and its tools, and roots of paths that exist on one machine only.
FORBIDDEN = codecs.decode(
    r"clcv\.bet|clgubaubfgrq\.bet|ertvfgel\.lneacxt\.pbz|ertvfgel\.acz|aczwf\.(?:bet|pbz)|pengrf\.vb|cebkl\.tbynat"
    r"|ercb[0-9]*\.znira|qro\.qrovna|snez-fghqvb|snez-orapu|pynhqr|naguebcvp|(?<![-.N-Mn-m0-9_])/(?:jbex|ebbg)/",
    "rot13",
)


def test_the_repository_names_no_workshop_no_registry_and_no_machine() -> None:
    forbidden = re.compile(FORBIDDEN, re.IGNORECASE)
    found = []
    for path in _files():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        found += [f"{_named(path)}: {match.group()}" for match in forbidden.finditer(text)]
    assert found == []


def test_the_list_of_what_is_forbidden_works() -> None:
    forbidden = re.compile(FORBIDDEN, re.IGNORECASE)
    for rotated in ("uggcf://clcv.bet/fvzcyr", "uggcf://ertvfgel.aczwf.bet/hcybg", "pq /jbex/znva", '"/ebbg/k"'):
        assert forbidden.search(codecs.decode(rotated, "rot13"))
    for harmless in ("/access/users/root/", "teamwork/", "/api/v1/work"):
        assert not forbidden.search(harmless)


def test_no_unfinished_business() -> None:
    words = re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME|XX" + r"X)\b")
    found = [
        f"{_named(path)}:{number}"
        for path in _files()
        if path.suffix in CODE | {".md", ".toml", ".yaml"}
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if words.search(line)
    ]
    assert found == []


_IN_A_STRING = re.compile(
    r"^\s*from ((?:hbus_console|engine|examples)(?:\.\w+)*) import (\w+(?: as \w+)?(?:, \w+)*)", re.M
)


def test_programs_in_strings_import_what_there_is() -> None:
    """Tests hand programs to processes of their own as text, which neither linter nor type checker reads."""
    lost = []
    for path, tree in _python("tests"):
        for node in ast.walk(tree):
            if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
                continue
            for module, names in _IN_A_STRING.findall(node.value):
                for name in names.split(","):
                    wanted = name.split(" as ")[0].strip()
                    found = importlib.import_module(module) if importlib.util.find_spec(module) else None
                    if not hasattr(found, wanted) and not importlib.util.find_spec(f"{module}.{wanted}"):
                        lost.append(f"{_named(path)}: from {module} import {wanted}")
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
