"""Counts publishes that failed, and finds them without reading those that did not."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("ledger", "0003_failures")]

    operations = [
        migrations.AddField(model_name="flowsample", name="failed", field=models.BigIntegerField(default=0)),
        migrations.AddIndex(
            model_name="flowsample",
            index=models.Index(condition=models.Q(failed__gt=0), fields=["bucket_ms"], name="flow_failed"),
        ),
    ]
