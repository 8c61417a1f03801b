"""A DuckDB that reads the files it was named and nothing else, writes nothing, and cannot be told otherwise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import duckdb
import pyarrow as pa

from engine.pipeline.lake.schema import KEY_HASH, SCHEMAS
from engine.pipeline.lake.state import Kind

_TYPES = {pa.string(): "VARCHAR", pa.int64(): "BIGINT", pa.binary(): "BLOB"}
_EXTENSIONS = pa.map_(pa.string(), pa.string())
#: ``at`` is a word of DuckDB's own.
_NAMED = {"at": "happened_at"}
#: From the first on: nothing is fetched, found in Python, or kept on a disk.
_CLOSED: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "allow_unsigned_extensions": "false",
    "allow_persistent_secrets": "false",
    "python_enable_replacements": "false",
    "temp_directory": "",
    "memory_limit": "512MB",
    "threads": "2",
}


def columns_of(kind: Kind) -> dict[str, str]:
    """The columns of its view, and their types as DuckDB calls them. Instants are in UTC."""
    return {_NAMED.get(field.name, field.name): _type(field.type) for field in SCHEMAS[kind] if field.name != KEY_HASH}


def _type(kind: pa.DataType) -> str:
    if pa.types.is_timestamp(kind):
        return "TIMESTAMP"
    return "MAP(VARCHAR, VARCHAR)" if kind == _EXTENSIONS else _TYPES[kind]


def sealed(files: Mapping[Kind, Sequence[str]]) -> duckdb.DuckDBPyConnection:
    """With a view of each kind over these files."""
    opened = duckdb.connect(":memory:", config=_CLOSED)
    for kind in Kind:
        opened.execute(f"CREATE VIEW {kind.value} AS {_view(kind, files.get(kind, ()))}")
    allowed = ", ".join(_quoted(path) for paths in files.values() for path in paths)
    opened.execute("SET TimeZone = 'UTC'")
    opened.execute(f"SET allowed_paths = [{allowed}]")
    opened.execute("SET enable_external_access = false")
    opened.execute("SET lock_configuration = true")
    return opened


def _view(kind: Kind, paths: Sequence[str]) -> str:
    columns = columns_of(kind)
    if not paths:
        nothing = ", ".join(f'NULL::{type_} AS "{name}"' for name, type_ in columns.items())
        return f"SELECT {nothing} WHERE false"
    named = {there: here for here, there in _NAMED.items()}
    chosen = ", ".join(f'"{named.get(name, name)}"::{type_} AS "{name}"' for name, type_ in columns.items())
    # Of names of columns, and of paths that the lake told.
    return f"SELECT {chosen} FROM read_parquet([{', '.join(map(_quoted, paths))}])"  # noqa: S608


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
