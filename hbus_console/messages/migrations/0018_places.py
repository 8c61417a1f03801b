"""For who takes the rows of the ledger by their numbers: what was published late, and what is let go of meanwhile."""

from django.db import migrations, models


def drop_trigger(apps, schema_editor):
    """Which the release before does not know, and which names a table that goes."""
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute("DROP TRIGGER IF EXISTS ledger_release ON ledger_ledgermessage")
        schema_editor.execute("DROP FUNCTION IF EXISTS hbus_ledger_release")
    else:
        schema_editor.execute("DROP TRIGGER IF EXISTS ledger_release")


class Migration(migrations.Migration):

    dependencies = [
        ('ledger', '0017_event_source'),
    ]

    operations = [
        migrations.CreateModel(
            name='LedgerRelease',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('row_id', models.BigIntegerField(unique=True)),
            ],
        ),
        migrations.CreateModel(
            name='LedgerPlace',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('table', models.CharField(max_length=40)),
                ('row_id', models.BigIntegerField()),
                ('release_id', models.BigIntegerField(default=0)),
                ('let_go', models.JSONField(default=dict)),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('table', 'row_id', 'release_id'), name='one_ledger_place_each')],
            },
        ),
        migrations.RunPython(migrations.RunPython.noop, drop_trigger),
    ]
