"""Triggers that refuse UPDATE, DELETE and (PostgreSQL) TRUNCATE of audit entries."""

from __future__ import annotations

from django.db import migrations


def install(apps, schema_editor):
    from hbus_console.audit import guards

    guards.install(schema_editor.connection)


class Migration(migrations.Migration):
    dependencies = [("audit", "0003_longer_target")]

    operations = [migrations.RunPython(install, migrations.RunPython.noop, elidable=False)]
