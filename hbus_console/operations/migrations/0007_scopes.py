"""Where its starter might do it when it began: what their rights are held against before every step."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("operations", "0006_speed")]

    operations = [migrations.AddField("operation", "scopes", models.JSONField(default=list))]
