"""How often people were refused something."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("audit", "0008_open_decisions")]

    operations = [
        migrations.CreateModel(
            name="RefusalCount",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("actor", models.CharField(max_length=150)),
                ("actor_kind", models.CharField(max_length=16)),
                ("subject", models.CharField(blank=True, max_length=542)),
                ("since", models.DateTimeField()),
                ("entries", models.PositiveIntegerField(default=0)),
                ("more", models.JSONField(default=dict)),
                ("more_since", models.DateTimeField(db_index=True, null=True)),
                ("more_until", models.DateTimeField(null=True)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("actor", "actor_kind", "subject"), name="one_refusal_count")
                ]
            },
        ),
    ]
