"""Calls the topic of an entry its namespace, and makes room for the longest subjects.

Nothing stored is touched: the column keeps its name, SQLite does not bound texts (so that its table is not rebuilt),
and PostgreSQL widens a column without rewriting the rows.
"""

from __future__ import annotations

from django.db import migrations, models

_WIDTHS = {"target_type": 40, "target": 501}


def widen(apps, schema_editor):
    if schema_editor.connection.vendor == "postgresql":
        for column, width in _WIDTHS.items():
            schema_editor.execute(f"ALTER TABLE audit_auditentry ALTER COLUMN {column} TYPE varchar({width})")


class Migration(migrations.Migration):
    dependencies = [("audit", "0005_target_alone")]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.RemoveIndex(model_name="auditentry", name="audit_topic"),
                migrations.RenameField(model_name="auditentry", old_name="topic", new_name="namespace"),
                migrations.AlterField(
                    model_name="auditentry",
                    name="namespace",
                    field=models.CharField(blank=True, db_column="topic", max_length=200),
                ),
                migrations.AddIndex(
                    model_name="auditentry",
                    index=models.Index(fields=["namespace", "-seq"], name="audit_topic"),
                ),
                migrations.AlterField(
                    model_name="auditentry", name="target_type", field=models.CharField(max_length=40)
                ),
                migrations.AlterField(model_name="auditentry", name="target", field=models.CharField(max_length=501)),
            ]
        ),
        migrations.RunPython(widen, migrations.RunPython.noop, elidable=False),
    ]
