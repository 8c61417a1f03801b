"""Uses by the day. What was booked before is left in its quarters, which tell of its days for as long as they are kept."""

from __future__ import annotations

from time import time

from django.db import migrations, models

_DAY_S = 86_400


def begin_with_a_whole_day(apps, schema_editor):
    alias = schema_editor.connection.alias
    if apps.get_model("quotas", "QuotaUseRollup").objects.using(alias).exists():
        trimmed = apps.get_model("quotas", "UsesTrimmed").objects.using(alias)
        since = int(time()) // _DAY_S * _DAY_S + _DAY_S
        trimmed.update_or_create(uses="ledger_quota_use_day", defaults={"since": since})


def forget(apps, schema_editor):
    trimmed = apps.get_model("quotas", "UsesTrimmed").objects.using(schema_editor.connection.alias)
    trimmed.filter(uses="ledger_quota_use_day").delete()


class Migration(migrations.Migration):

    dependencies = [
        ('quotas', '0002_use_rollup'),
    ]

    operations = [
        migrations.CreateModel(
            name='QuotaUseDay',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('minute', models.BigIntegerField()),
                ('service', models.CharField(max_length=200)),
                ('resource', models.CharField(max_length=200)),
                ('tenant', models.CharField(max_length=200)),
                ('admitted', models.BigIntegerField(default=0)),
                ('delayed', models.BigIntegerField(default=0)),
                ('refused', models.BigIntegerField(default=0)),
                ('shadowed', models.BigIntegerField(default=0)),
            ],
            options={
                'db_table': 'ledger_quota_use_day',
                'indexes': [models.Index(fields=['tenant', 'minute'], name='quota_days_of_tenant')],
                'constraints': [models.UniqueConstraint(fields=('minute', 'service', 'resource', 'tenant'), name='one_use_of_a_day')],
            },
        ),
        # Where the tables are: without the hint the router takes it for one that is about no table of the ledger.
        migrations.RunPython(begin_with_a_whole_day, forget, hints={"model_name": "quotauseday"}),
    ]
