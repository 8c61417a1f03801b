"""Which decisions are being carried out."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("audit", "0007_action_time")]

    operations = [
        migrations.CreateModel(
            name="OpenDecision",
            fields=[
                ("seq", models.BigIntegerField(primary_key=True, serialize=False)),
                ("at", models.DateTimeField()),
            ],
        ),
    ]
