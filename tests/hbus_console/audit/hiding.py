"""Somebody who hides an entry without touching it: by how the database finds it."""

from __future__ import annotations

from django.db import connection

from hbus_console.audit.guards import TABLE
from tests.hbus_console.audit.intruder import Intruder

HIDDEN = 3


def rebuilt(it: Intruder) -> None:
    """Every index of hbus made anew on SQLite without one entry, and what is told of them as it was."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT name, sql FROM sqlite_master WHERE tbl_name = %s AND type = 'index' AND sql > ''", [TABLE]
        )
        for name, made in cursor.fetchall():
            cursor.execute(f'DROP INDEX "{name}"')
            cursor.execute(f"{made} WHERE seq <> {HIDDEN}")
            rewrite(it, f"sql = '{made}'", name)


def under_another_key(it: Intruder) -> None:
    """It is in the index, and as many entries as there should be, but where nobody looks for it."""
    key = f"(CASE WHEN seq = {HIDDEN} THEN 'x' ELSE target END)"
    with connection.cursor() as cursor:
        cursor.execute("DROP INDEX audit_target_alone")
        cursor.execute(f"CREATE INDEX audit_target_alone ON {TABLE} ({key}, seq DESC)")
    rewrite(
        it, f'sql = \'CREATE INDEX "audit_target_alone" ON "{TABLE}" ("target", "seq" DESC)\'', "audit_target_alone"
    )


def rewrite(it: Intruder, change: str, name: str) -> None:
    """What SQLite keeps of a table or an index, read anew by who asks next."""
    it.ddl(
        "PRAGMA writable_schema = ON",
        f"UPDATE sqlite_master SET {change} WHERE name = '{name}'",
        "PRAGMA writable_schema = RESET",
        # Without it the connection keeps what it has read when the test is rolled back, and all tests after it fail.
        "CREATE TABLE touched (it)",
        "DROP TABLE touched",
    )


def partial(it: Intruder) -> None:
    it.ddl("DROP INDEX audit_topic", f"CREATE INDEX audit_topic ON {TABLE} (topic, seq DESC) WHERE seq <> {HIDDEN}")


def strange_order(it: Intruder) -> None:
    """An index by a comparison of one's own, which PostgreSQL takes for the one of texts."""
    it.ddl(
        "CREATE FUNCTION odd(text, text) RETURNS int LANGUAGE sql IMMUTABLE AS $$ SELECT bttextcmp($1, $2) $$",
        "CREATE OPERATOR CLASS odd_ops FOR TYPE text USING btree AS OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =,"
        " OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 odd(text, text)",
        f"CREATE INDEX fast ON {TABLE} (target odd_ops)",
    )


def strange_equality(it: Intruder) -> None:
    """No index at all: two texts are alike when somebody says so."""
    it.ddl(
        "CREATE FUNCTION odd(varchar, varchar) RETURNS boolean LANGUAGE sql IMMUTABLE AS"
        " $$ SELECT $1::text = $2::text AND $1::text <> 'booking.created' $$",
        "CREATE OPERATOR public.= (LEFTARG = varchar, RIGHTARG = varchar, FUNCTION = odd)",
    )
