"""One Delta table over files of a lake, by delta-rs. Imported by who exports, for it brings that library."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote

import msgspec
from deltalake import DeltaTable, Schema
from deltalake.exceptions import TableNotFoundError
from deltalake.transaction import AddAction, CommitProperties, RemoveAction, Transaction, create_table_with_add_actions

from engine.core.clock import to_rfc3339
from engine.pipeline.delta.changes import Change, Holds
from engine.pipeline.delta.places import name_in_table, table_folder
from engine.pipeline.lake.files import sync_folder
from engine.pipeline.lake.schema import SCHEMAS
from engine.pipeline.lake.state import Kind, LakeFile

#: Of which column of instants a file's first and last are those that the lake knows, to the millisecond.
_AT = {Kind.MESSAGES: "stored_at", Kind.PUBLISHED: "published_at", Kind.DELIVERIES: "at"}


class Table:
    """Of one topic and kind. ``lake_id`` tells this lake from another that was in its folder before. Not thread-safe.

    All methods raise ``deltalake.exceptions.DeltaError`` or one below it, ``CommitFailedError`` where another came
    first, and ``OSError``.
    """

    def __init__(self, root: Path, topic: str, kind: Kind, *, lake_id: str) -> None:
        self.folder = table_folder(root, topic, kind)
        self._root = root
        self._topic = topic
        self._kind = kind
        self._lake_id = lake_id
        self._table = self._opened()

    def holds(self) -> Holds:
        """As it was when it was opened, or committed to last."""
        uris = self._table.file_uris() if self._table is not None else []
        return Holds(self._topic, self._kind, frozenset(name_in_table(unquote(uri)) for uri in uris))

    def exported(self) -> int | None:
        """Up to which commit of this lake; ``None``: none."""
        return self._table.transaction_version(self._lake_id) if self._table is not None else None

    def version(self) -> int:
        """Its own; -1 where there is none."""
        return self._table.version() if self._table is not None else -1

    def commit(self, change: Change) -> None:
        """Whole or not at all; the files lie in its folder first."""
        self._link(change.added)
        schema = Schema.from_arrow(SCHEMAS[self._kind])
        added = [
            AddAction(name_in_table(file.path), file.bytes, {}, change.at_ms, change.of_rows, self._said(file))
            for file in change.added
        ]
        properties = CommitProperties(app_transactions=[Transaction(self._lake_id, change.version)])
        if self._table is None:
            create_table_with_add_actions(
                self.folder.as_uri(),
                schema,
                added,
                name=self._topic,
                description=f"what hbus has archived: {self._kind}",
                commit_properties=properties,
            )
        else:
            gone = [RemoveAction(name, change.of_rows, change.at_ms) for name in change.removed]
            self._table.create_write_transaction([*gone, *added], "append", schema, commit_properties=properties)
        self._table = self._opened()

    def _opened(self) -> DeltaTable | None:
        if not self.folder.exists():
            return None
        with suppress(TableNotFoundError):
            return DeltaTable(self.folder.as_uri())
        return None

    def _link(self, files: Sequence[LakeFile]) -> None:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        days = set()
        for file in files:
            link = self.folder / name_in_table(file.path)
            link.parent.mkdir(mode=0o700, exist_ok=True)
            days.add(link.parent)
            with suppress(FileExistsError):
                os.link(self._root / file.path, link)
        for each in (*sorted(days), self.folder):
            sync_folder(each)

    def _said(self, file: LakeFile) -> str:
        """By which readers leave files aside. Bounds of instants are those of the lake, and no narrower."""
        column = _AT[self._kind]
        least, most = to_rfc3339(file.first_ms), to_rfc3339(file.last_ms + 1)
        return msgspec.json.encode(
            {"numRecords": file.rows, "minValues": {column: least}, "maxValues": {column: most}}
        ).decode()
