"""The laws of the house that no linter knows; those of imports are beside them."""

from __future__ import annotations

import ast
import codecs
import re
from pathlib import Path

import pytest

from hbus_console.state import ROOT
from tests.source import files, named, python

LONGEST_FILE = 450
LONGEST_TEMPLATE_LINE = 200
CODE = {".py", ".js", ".css", ".html", ".lua"}
#: Apps with pages: knowing one is knowing all. Each is a file, or a folder of the same name.
APPS = sorted(path.parent.name for path in ROOT.glob("hbus_console/*/urls*") if path.stem == "urls")
SAME_FILES = ("apps", "services", "views", "api", "urls")
#: Those that only show what others keep lack what would write it, or tell it to programs.
LACKING = {
    "api": {"services", "api"},
    "evidence": {"services"},
    "overview": {"services", "api"},
    "replays": {"services", "api"},
    "traffic": {"services", "api"},
    "ui": {"services", "api"},
}
#: Writing verbs of managers and models.
WRITES = {"create", "bulk_create", "get_or_create", "update_or_create", "update", "bulk_update", "delete", "save"}


@pytest.mark.parametrize("app", APPS)
def test_every_app_has_the_same_files(app: str) -> None:
    folder = ROOT / "hbus_console" / app
    missing = {name for name in SAME_FILES if not ((folder / f"{name}.py").exists() or (folder / name).is_dir())}
    assert missing == LACKING.get(app, set())


@pytest.mark.parametrize("app", sorted(path.parent.name for path in ROOT.glob("hbus_console/*/apps.py")))
def test_every_app_has_tests_where_the_tree_says(app: str) -> None:
    folders = [ROOT / "tests" / "hbus_console" / app, ROOT / "tests" / app]
    assert [test for folder in folders for test in folder.rglob("test_*.py")]


def test_files_stay_short() -> None:
    long = {
        named(path): lines
        for path in files()
        if path.suffix in CODE and "migrations" not in path.parts
        if (lines := len(path.read_text(encoding="utf-8").splitlines())) > LONGEST_FILE
    }
    assert long == {}


def test_lines_of_templates_can_be_read() -> None:
    long = [
        f"{named(path)}:{number}"
        for path in files()
        if path.suffix == ".html" and "templates" in path.parts
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if len(line) > LONGEST_TEMPLATE_LINE
    ]
    assert long == []


def test_dialogs_are_drawn_by_their_tag() -> None:
    """``{% sheet %}`` alone writes one, and the page that shows how components look; see ``dialogs.py``."""
    pasted = {
        named(path)
        for path in files()
        if path.suffix == ".html" and '<div class="sheet"' in path.read_text(encoding="utf-8")
    }
    assert pasted == {"templates/components/sheet.html", "templates/ui/kit.html"}


def test_no_two_classes_of_the_engine_share_a_name() -> None:
    """Who reads a name in a log or a trace, or looks for it, finds one thing; private classes are no exception."""
    homes: dict[str, list[str]] = {}
    for path, tree in python("engine"):
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                homes.setdefault(node.name, []).append(named(path))
    assert {name: where for name, where in homes.items() if len(where) > 1} == {}


def test_no_two_classes_of_the_console_share_a_name() -> None:
    """Its rooms import each other; a class inside another is named with it, and a command is named by its file."""
    homes: dict[str, list[str]] = {}
    for path, tree in python("hbus_console"):
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not {"migrations", "commands"} & set(path.parts):
                homes.setdefault(node.name, []).append(named(path))
    assert {name: where for name, where in homes.items() if len(where) > 1} == {}


@pytest.mark.parametrize(("made", "wiring"), [("open_transport", "bus"), ("SlotStore", "cron")])
def test_only_the_wiring_makes_what_settings_say(made: str, wiring: str) -> None:
    """Measurements make their own, beside the console's."""
    making = {
        named(path)
        for path, tree in python("hbus_console", "examples")
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == made
    }
    others = {name for name in making if not name.startswith("hbus_console/bench/")}
    assert others == {f"hbus_console/wiring/{wiring}.py"}


def _named_to_msgspec(call: ast.Call) -> ast.expr | None:
    """The type that a call tells msgspec to read, if it does."""
    said = ast.unparse(call.func)
    if said == "msgspec.convert" or re.fullmatch(r"(msgspec\.)?(json|msgpack)\.Decoder", said):
        return next((word.value for word in call.keywords if word.arg == "type"), None) or call.args[-1]
    if re.fullmatch(r"(msgspec\.)?(json|msgpack)\.decode", said):
        return next((word.value for word in call.keywords if word.arg == "type"), None)
    return None


def test_types_are_prepared_before_msgspec_reads_them() -> None:
    """Else two threads that use one first at the same time end the process: see :mod:`engine.core.prepared`."""
    found = {
        (named(path), ast.unparse(kind))
        for path, tree in python("engine", "hbus_console")
        if named(path) != "engine/core/prepared.py"
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and (kind := _named_to_msgspec(node)) is not None
    }
    assert len(found) > 15
    assert {kind for kind in found if not kind[1].startswith("prepared(")} == set()


def test_only_the_audit_service_writes_the_audit_log() -> None:
    writing = {
        named(path)
        for path, tree in python("hbus_console", "examples")
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
        f"{named(path)}:{node.lineno} {ast.unparse(node.func)}"
        for path, tree in python("hbus_console", "examples")
        if _outer_layer(path)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in WRITES
        if ".objects" in ast.unparse(node.func) or (node.func.attr in {"save", "delete"} and not node.args)
        if not ast.unparse(node.func).startswith("self._record.")
    ]
    assert writing == []


@pytest.mark.parametrize("path", [path for path in files() if path.suffix == ".lua"], ids=named)
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
        f"{named(path)}:{number}"
        for path in files()
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
    for path in files():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        found += [f"{named(path)}: {match.group()}" for match in forbidden.finditer(text)]
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
        f"{named(path)}:{number}"
        for path in files()
        if path.suffix in CODE | {".md", ".toml", ".yaml"}
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if words.search(line)
    ]
    assert found == []
