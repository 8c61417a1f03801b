"""Finds a few kinds of acts within a span of time, as charts ask for them."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("audit", "0006_subject")]

    operations = [
        migrations.AddIndex(
            model_name="auditentry", index=models.Index(fields=["action", "at"], name="audit_action_time")
        ),
    ]
