from __future__ import annotations

from django.apps import AppConfig


class AuditConfig(AppConfig):
    name = "hbus_console.audit"
    label = "audit"
