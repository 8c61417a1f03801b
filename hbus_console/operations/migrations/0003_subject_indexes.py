"""Ends what 0002 began: PostgreSQL alters no table in the transaction that has just rewritten its rows."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("operations", "0002_subjects")]

    operations = [
        migrations.RemoveField(model_name="operationitem", name="subscription"),
        migrations.AddIndex(
            model_name="operationitem", index=models.Index(fields=["name"], name="operation_item_name")
        ),
        migrations.AddIndex(
            model_name="operationitem", index=models.Index(fields=["became"], name="operation_item_became")
        ),
        migrations.AddIndex(
            model_name="operationitem",
            index=models.Index(fields=["operation", "namespace", "id"], name="operation_item_namespace"),
        ),
    ]
