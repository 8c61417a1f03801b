"""From where the speed of an operation is counted, which no pause may slow down."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("operations", "0005_starters")]

    operations = [
        migrations.AddField("operation", "went_at", models.DateTimeField(null=True)),
        migrations.AddField("operation", "went_from", models.PositiveBigIntegerField(default=0)),
    ]
