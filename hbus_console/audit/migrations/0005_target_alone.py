"""Finds what was done to a thing by its name alone."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("audit", "0004_guards")]

    operations = [
        migrations.AddIndex(
            model_name="auditentry", index=models.Index(fields=["target", "-seq"], name="audit_target_alone")
        )
    ]
