"""Somebody who wants the audit log to say something else: each kind of tampering that was thought of."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import connection

from hbus_console.audit import chain, guards, witness
from hbus_console.audit.models import AuditEntry
from hbus_console.audit.services import content
from hbus_console.wiring import store
from tests.guards import drop, lifted

TABLE = guards.TABLE
ON_SQLITE = connection.vendor == "sqlite"


@dataclass
class Intruder:
    """``folder`` is STATE/audit, ``older`` a copy of it from when the log was shorter."""

    folder: Path
    older: Path
    write: Callable[[int], Any]
    #: Anchors and witnesses go on as the keeper would.
    tick: Callable[[], None]

    @property
    def anchors(self) -> Path:
        return self.folder / "anchors.jsonl"

    @property
    def verified(self) -> Path:
        return self.folder / "verified.json"

    def sql(self, *statements: str) -> None:
        """Past the guards, which stand again afterwards."""
        with lifted(connection), connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def ddl(self, *statements: str) -> None:
        with connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def set(self, change: str, seq: int = 3) -> None:
        self.sql(f"UPDATE {TABLE} SET {change} WHERE seq = {seq}")

    def delete(self, where: str) -> None:
        self.sql(f"DELETE FROM {TABLE} WHERE {where}")

    def chained(self, key: str, reason: str = "rewritten") -> None:
        """Write the whole log anew, every hash in its place."""
        previous = chain.GENESIS
        with lifted(connection), connection.cursor() as cursor:
            for entry in AuditEntry.objects.order_by("seq"):
                entry.reason, entry.previous_hash = reason, previous
                previous = chain.link(key, previous, content(entry))
                cursor.execute(
                    f"UPDATE {TABLE} SET reason = %s, previous_hash = %s, hash = %s WHERE seq = %s",
                    [reason, entry.previous_hash, previous, entry.seq],
                )

    def insert(self, seq: int, key: str = "a guess") -> None:
        """One entry more, right in all that needs no key."""
        entry = AuditEntry.objects.order_by("seq").last()
        assert entry is not None
        entry.previous_hash, entry.seq, entry.reason = entry.hash, seq, "was always there"
        entry.hash = chain.link(key, entry.previous_hash, content(entry))
        with lifted(connection):
            entry.save(force_insert=True)

    def renumbered(self) -> None:
        last = AuditEntry.objects.count()
        self.delete("seq = 3")
        self.sql(*(f"UPDATE {TABLE} SET seq = {seq - 1} WHERE seq = {seq}" for seq in range(4, last + 1)))

    def swapped(self) -> None:
        self.sql(*(f"UPDATE {TABLE} SET seq = {new} WHERE seq = {old}" for old, new in ((2, 90), (3, 2), (90, 3))))

    def anchor_lines(self, change: Callable[[list[str]], list[str]]) -> None:
        lines = self.anchors.read_text().splitlines()
        self.anchors.write_text("".join(f"{line}\n" for line in change(lines)))

    def edited(self, lines: list[str]) -> list[str]:
        body = json.loads(lines[1])
        lines[1] = json.dumps({**body, "hash": "f" * 64})
        return lines

    def behind_the_anchors(self, raw: bytes) -> None:
        with self.anchors.open("ab") as file:
            file.write(raw)

    def rolled_back_anchors(self) -> None:
        shutil.rmtree(self.folder)
        shutil.copytree(self.older, self.folder)

    def removed_folder(self) -> None:
        shutil.rmtree(self.folder)

    def linked(self, path: Path) -> None:
        elsewhere = path.parent.parent / f"elsewhere-{path.name}"
        path.rename(elsewhere)
        path.symlink_to(elsewhere)

    def forged_verdict(self) -> None:
        found = json.loads(self.verified.read_text())
        found["verified"]["seq"] = 1
        self.verified.write_text(json.dumps(found))

    def forged_witness(self) -> None:
        raw = store.client().hget(witness.key(), "head")
        assert isinstance(raw, bytes)
        found = json.loads(raw)
        found["body"]["seq"] = 1
        store.client().hset(witness.key(), "head", json.dumps(found))

    def emptied_guard(self) -> None:
        """The same name, and nothing behind it."""
        name = min(guards.expected(connection))
        drop(connection, name)
        if ON_SQLITE:
            self.ddl(f"CREATE TRIGGER {name} BEFORE DELETE ON {TABLE} BEGIN SELECT 1; END")
        else:
            self.ddl(
                "CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN OLD; END $$",
                f"CREATE TRIGGER {name} BEFORE UPDATE OR DELETE ON {TABLE} FOR EACH ROW EXECUTE FUNCTION nothing()",
            )

    def conditional_guard(self) -> None:
        """Everything as it was, but that it never fires."""
        name = min(guards.expected(connection))
        drop(connection, name)
        if ON_SQLITE:
            body = f"BEGIN SELECT RAISE(ABORT, '{guards._REFUSAL}'); END"
            self.ddl(f"CREATE TRIGGER {name} {guards._SQLITE[name]} WHEN 0 {body}")
        else:
            made = f"{guards._POSTGRESQL[name]} WHEN (false)"
            self.ddl(f"CREATE TRIGGER {name} {made} EXECUTE FUNCTION hbus_audit_refuse()")

    def swallowing_trigger(self) -> None:
        if ON_SQLITE:
            self.ddl(f"CREATE TRIGGER quiet BEFORE INSERT ON {TABLE} WHEN 0 BEGIN SELECT RAISE(IGNORE); END")
        else:
            self.ddl(f"CREATE RULE quiet AS ON INSERT TO {TABLE} WHERE false DO INSTEAD NOTHING")

    def other_installation(self) -> None:
        """Its log and its anchors, all genuine there."""
        ours = settings.AUDIT_KEY
        self.chained("another installation's key", "theirs")
        self.removed_folder()
        settings.AUDIT_KEY = "another installation's key"
        try:
            self.tick()
        finally:
            settings.AUDIT_KEY = ours
