"""The text of an exception that others made reaches logs, rows and pages by ``engine.core.error_text`` alone.

Their ``__str__`` may raise, or say megabytes, a password, or what no database stores. Our own errors say a sentence of
ours, and what a parser says of bad input is said to whoever sent it: these two may be put into words as they are.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache

import pytest

from tests.source import named, python

#: What parsing raises, of builtins and of the libraries that we parse by.
PARSING = {
    *("ValueError", "TypeError", "KeyError", "AttributeError", "NameError", "ImportError", "EOFError"),
    *("OverflowError", "RecursionError", "UnicodeError", "UnicodeDecodeError", "UnicodeEncodeError"),
    *("binascii.Error", "csv.Error", "msgspec.DecodeError", "msgspec.MsgspecError", "msgspec.ValidationError"),
    "jsonschema_rs.ValidationError",
}
#: Where texts of exceptions are made.
HOME = "engine/core/error_text.py"


@cache
def ours() -> frozenset[str]:
    """The classes that are written here, by their names."""
    return frozenset(
        node.name
        for _, tree in python("engine", "hbus_console", "examples")
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    )


def foreign(kind: ast.expr | None) -> bool:
    """Whether some exception of this handler's or parameter's kind was made by others."""
    match kind:
        case ast.Tuple(elts=kinds):
            return any(foreign(each) for each in kinds)
        case ast.BinOp(left=left, right=right):
            return foreign(left) or foreign(right)
        case None | ast.Constant(value=None):
            return kind is None
    name = ast.unparse(kind)
    return name not in PARSING and name.rpartition(".")[2] not in ours()


def is_error(kind: ast.expr | None) -> bool:
    """Whether a parameter of this annotation is an exception of others."""
    if kind is None or not any(word in ast.unparse(kind) for word in ("Error", "Exception")):
        return False
    parts = [kind.left, kind.right] if isinstance(kind, ast.BinOp) else [kind]
    return any(foreign(part) and ast.unparse(part).endswith(("Error", "Exception")) for part in parts)


def texts(body: ast.AST, name: str) -> Iterator[int]:
    """The lines that put ``name`` into words by itself; looking for a word in them says nothing to anybody."""
    looked_at = {id(part) for node in ast.walk(body) if isinstance(node, ast.Compare) for part in node.comparators}
    for node in ast.walk(body):
        match node:
            case ast.FormattedValue(value=ast.Name(id=found)) if found == name:
                yield node.lineno
            case ast.Call(func=ast.Name(id="str" | "repr" | "format"), args=[ast.Name(id=found), *_]) if found == name:
                if id(node) not in looked_at:
                    yield node.lineno


def found_in(tree: ast.AST) -> Iterator[int]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ExceptHandler) and node.name and foreign(node.type):
            for statement in node.body:
                yield from texts(statement, node.name)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for argument in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]:
                if is_error(argument.annotation):
                    yield from texts(node, argument.arg)


def test_only_error_text_puts_the_exceptions_of_others_into_words() -> None:
    by_themselves = [
        f"{named(path)}:{line}"
        for path, tree in python("engine", "hbus_console", "examples")
        if named(path) != HOME
        for line in sorted(set(found_in(tree)))
    ]
    assert by_themselves == [], "use text_of, words_of or class_of of engine.core.error_text"


@pytest.mark.parametrize(
    ("code", "lines"),
    [
        ("try: x()\nexcept Exception as e: log(f'{e}')", [2]),
        ("try: x()\nexcept Exception as e: log(error=str(e))", [2]),
        ("try: x()\nexcept (redis.RedisError, ValueError) as e: log(f'{e!r}')", [2]),
        ("try: x()\nexcept BaseException as e:\n    def say(): return repr(e)", [3]),
        ("def words(e: Exception | None): return f'{e}'", [1]),
        ("def words(e: ssl.SSLError): return str(e)", [1]),
        ("try: x()\nexcept Exception as e: log(text_of(e))", []),
        ("try: x()\nexcept redis.RedisError as e:\n    if 'MISCONF' in str(e): raise", []),
        ("try: x()\nexcept BadInput as e: say(str(e))", []),
        ("try: x()\nexcept (ValueError, msgspec.DecodeError) as e: say(f'not JSON: {e}')", []),
        ("def words(e: HbusError): return str(e)", []),
    ],
)
def test_the_law_finds_what_it_forbids_and_nothing_else(code: str, lines: list[int]) -> None:
    assert list(found_in(ast.parse(code))) == lines
