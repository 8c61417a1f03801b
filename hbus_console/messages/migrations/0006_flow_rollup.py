"""Rolls the flow up into spans of five minutes, also what was booked before."""

from __future__ import annotations

from django.db import migrations, models

COUNTS = (
    "published", "deduplicated", "settled", "settled_first", "retried", "dead", "expired", "failed", "duration_us",
)  # fmt: skip


def roll_up(apps, schema_editor):
    if not apps.get_model("ledger", "FlowSample").objects.using(schema_editor.connection.alias).exists():
        return
    sums = ", ".join(f"SUM({name})" for name in COUNTS)
    schema_editor.execute(
        f"INSERT INTO ledger_flowrollup (topic, subscription, bucket_ms, {', '.join(COUNTS)}) "
        f"SELECT topic, subscription, bucket_ms / 300000 * 300000, {sums} FROM ledger_flowsample "
        "GROUP BY topic, subscription, bucket_ms / 300000 * 300000"
    )


class Migration(migrations.Migration):
    dependencies = [("ledger", "0005_lag_parked")]

    operations = [
        migrations.CreateModel(
            name="FlowRollup",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("bucket_ms", models.BigIntegerField()),
                ("topic", models.CharField(max_length=200)),
                ("subscription", models.CharField(blank=True, max_length=100)),
                *((name, models.BigIntegerField(default=0)) for name in COUNTS),
            ],
            options={
                "indexes": [models.Index(fields=["bucket_ms"], name="flow_rollup_time")],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("topic", "subscription", "bucket_ms"), name="one_flow_rollup_per_bucket"
                    )
                ],
            },
        ),
        migrations.RunPython(roll_up, migrations.RunPython.noop, elidable=True),
    ]
