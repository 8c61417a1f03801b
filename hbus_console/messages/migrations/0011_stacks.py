"""The stack traces of failed attempts: once for all that have the same, and none in the rows of what went well."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [('ledger', '0010_failed')]

    operations = [
        migrations.CreateModel(
            name='LedgerStack',
            fields=[
                ('stack_id', models.CharField(max_length=16, primary_key=True, serialize=False)),
                ('text', models.TextField()),
                ('at_ms', models.BigIntegerField()),
            ],
        ),
        migrations.AddField(
            model_name='ledgerevent',
            name='stack_id',
            field=models.CharField(blank=True, max_length=16, null=True),
        ),
    ]
