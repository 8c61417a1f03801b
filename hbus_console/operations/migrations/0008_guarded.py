"""What an operation asked about that was hidden when it began: it is not told to who may not know that."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("operations", "0007_scopes")]

    operations = [migrations.AddField("operation", "guarded", models.JSONField(default=list))]
