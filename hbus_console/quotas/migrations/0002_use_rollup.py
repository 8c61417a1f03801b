"""Rolls uses up into quarters of an hour, also what was booked before."""

from __future__ import annotations

from django.db import migrations, models

COUNTS = ("admitted", "delayed", "refused", "shadowed")
#: As many minutes as were kept when this was made: where there are so many, older ones were removed.
MOST_USES = 5_000_000
#: No release booked more of a minute that it did not bound.
MOST_OF_A_MINUTE = 10**12


def roll_up(apps, schema_editor):
    alias = schema_editor.connection.alias
    uses = apps.get_model("quotas", "QuotaUse").objects.using(alias)
    first = uses.order_by("minute").values_list("minute", flat=True).first()
    if first is None:
        return
    sums = ", ".join(
        f"SUM(CASE WHEN {name} < 0 THEN 0 WHEN {name} > {MOST_OF_A_MINUTE} THEN {MOST_OF_A_MINUTE} ELSE {name} END)"
        for name in COUNTS
    )
    schema_editor.execute(
        f"INSERT INTO ledger_quota_use_rollup (minute, service, resource, tenant, {', '.join(COUNTS)}) "
        f"SELECT minute / 900 * 900, service, resource, tenant, {sums} FROM ledger_quota_use "
        "GROUP BY minute / 900 * 900, service, resource, tenant ORDER BY 1"
    )
    if uses.count() >= MOST_USES:
        trimmed = apps.get_model("quotas", "UsesTrimmed").objects.using(alias)
        # Of the first minute some may have gone, and of the first quarter all that was before it.
        trimmed.create(uses="ledger_quota_use", since=first + 60)
        trimmed.create(uses="ledger_quota_use_rollup", since=first // 900 * 900 + 900)


class Migration(migrations.Migration):
    dependencies = [("quotas", "0001_initial")]

    operations = [
        migrations.CreateModel(
            name="UsesTrimmed",
            fields=[
                ("uses", models.CharField(max_length=100, primary_key=True, serialize=False)),
                ("since", models.BigIntegerField()),
            ],
            options={"db_table": "ledger_quota_use_trimmed"},
        ),
        migrations.CreateModel(
            name="QuotaUseRollup",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("minute", models.BigIntegerField()),
                ("service", models.CharField(max_length=200)),
                ("resource", models.CharField(max_length=200)),
                ("tenant", models.CharField(max_length=200)),
                *((name, models.BigIntegerField(default=0)) for name in COUNTS),
            ],
            options={
                "db_table": "ledger_quota_use_rollup",
                "constraints": [
                    models.UniqueConstraint(
                        fields=("minute", "service", "resource", "tenant"), name="one_use_of_a_quarter"
                    )
                ],
            },
        ),
        # Where the tables are: without the hint the router takes it for one that is about no table of the ledger.
        migrations.RunPython(
            roll_up, migrations.RunPython.noop, elidable=True, hints={"model_name": "quotauserollup"}
        ),
    ]
