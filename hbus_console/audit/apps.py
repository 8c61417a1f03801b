from __future__ import annotations

from django.apps import AppConfig
from django.db.models.signals import post_migrate

from hbus_console.access.refusals import refused


class AuditConfig(AppConfig):
    name = "hbus_console.audit"
    label = "audit"

    def ready(self) -> None:
        # Models can be imported only now.
        from hbus_console.api.idempotency import look_for_traces_with, tell_unanswered_with
        from hbus_console.audit.guards import after_migrate
        from hbus_console.audit.left_behind import left_entry, note_unanswered
        from hbus_console.audit.refusals import book_refusal
        from hbus_console.cells import read_any_cell

        read_any_cell()
        post_migrate.connect(after_migrate, sender=self)
        refused.connect(book_refusal, dispatch_uid="audit")
        look_for_traces_with(left_entry)
        tell_unanswered_with(note_unanswered)
