from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.db import OperationalError, ProgrammingError, connection, transaction

from engine.bus.errors import InboxAway
from hbus_console.outbox.inbox import DjangoInbox
from hbus_console.outbox.models import InboxEntry
from hbus_console.teams.models import Team

pytestmark = pytest.mark.django_db(transaction=True)


def book(name: str) -> None:
    Team.objects.create(name=name, contact="x")


def test_the_effect_runs_once_and_commits_with_its_entry() -> None:
    inbox = DjangoInbox()
    assert inbox.once("t/g", "/s", "m1", lambda: book("first"))
    assert not inbox.once("t/g", "/s", "m1", lambda: book("second"))
    assert list(Team.objects.values_list("name", flat=True)) == ["first"]
    assert InboxEntry.objects.count() == 1


@pytest.mark.parametrize("other", [("t/other", "/s", "m1"), ("t/g", "/other", "m1"), ("t/g", "/s", "m2")])
def test_subscription_source_and_id_together_are_the_identity(other: tuple[str, str, str]) -> None:
    inbox = DjangoInbox()
    assert inbox.once("t/g", "/s", "m1", lambda: None)
    assert inbox.once(*other, lambda: None)


def test_an_exception_rolls_both_back_so_that_the_next_delivery_runs() -> None:
    inbox = DjangoInbox()

    def fail() -> None:
        book("half")
        raise LookupError("no")

    with pytest.raises(LookupError, match="no"):
        inbox.once("t/g", "/s", "m1", fail)
    assert not Team.objects.exists()
    assert inbox.once("t/g", "/s", "m1", lambda: book("whole"))


def test_what_the_effect_leaves_for_after_the_commit_runs_after_it() -> None:
    seen: list[int] = []
    inbox = DjangoInbox()
    inbox.once("t/g", "/s", "m1", lambda: transaction.on_commit(lambda: seen.append(InboxEntry.objects.count())))
    assert seen == [1]


def test_two_deliveries_at_the_same_time_run_the_effect_once() -> None:
    inbox, ran, answers = DjangoInbox(), [], []
    together = threading.Barrier(4)

    def deliver() -> None:
        together.wait()
        answers.append(inbox.once("t/g", "/s", "m1", lambda: ran.append(1)))
        connection.close()

    threads = [threading.Thread(target=deliver) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == [False, False, False, True]
    assert ran == [1]


def test_of_many_none_is_forgotten() -> None:
    inbox, ran = DjangoInbox(), []
    names = [f"m{number}" for number in range(150)]
    for name in (*names, *reversed(names)):
        inbox.once("t/g", "/s", name, lambda name=name: ran.append(name))
    assert ran == names


def test_names_of_any_length_are_identities() -> None:
    inbox = DjangoInbox()
    for source, message_id in (("/s" * 500, "m" * 500), ("/s\0", "m\0"), ("/s" * 500, "m" * 501)):
        assert inbox.once("t/g", source, message_id, lambda: None)
        assert not inbox.once("t/g", source, message_id, lambda: None)


@contextmanager
def locked() -> Iterator[None]:
    """Somebody else holds the database's write lock, on PostgreSQL the inbox's; whoever waits for it fails at once."""
    held, let_go = threading.Event(), threading.Event()

    def hold() -> None:
        with transaction.atomic(), connection.cursor() as cursor:
            if connection.vendor == "postgresql":
                cursor.execute(f"LOCK TABLE {InboxEntry._meta.db_table} IN ACCESS EXCLUSIVE MODE")
            else:
                book("theirs")
            held.set()
            let_go.wait(60)
            transaction.set_rollback(True)
        connection.close()

    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SET lock_timeout = '50ms'")
    holder = threading.Thread(target=hold)
    holder.start()
    assert held.wait(60)
    try:
        yield
    finally:
        let_go.set()
        holder.join()


def test_a_locked_database_is_the_inbox_s_trouble_and_runs_nothing() -> None:
    inbox, ran = DjangoInbox(), []
    with locked(), pytest.raises(InboxAway, match=r"The database of the inbox does not answer: .*lock"):
        inbox.once("t/g", "/s", "m1", lambda: ran.append(1))
    assert ran == []
    assert inbox.once("t/g", "/s", "m1", lambda: ran.append(1))
    assert ran == [1]


def test_what_the_effect_meets_in_a_database_is_the_effect_s_own() -> None:
    def ask_another() -> None:
        raise OperationalError("database is locked")

    with pytest.raises(OperationalError):
        DjangoInbox().once("t/g", "/s", "m1", ask_another)


def test_a_mistake_of_ours_is_not_taken_for_a_database_that_is_away() -> None:
    with connection.schema_editor() as editor:
        editor.delete_model(InboxEntry)
    try:
        with pytest.raises((OperationalError, ProgrammingError)):
            DjangoInbox().once("t/g", "/s", "m1", lambda: None)
    finally:
        with connection.schema_editor() as editor:
            editor.create_model(InboxEntry)
