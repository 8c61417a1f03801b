"""The table stays where it is; only the app that speaks of it is another."""

from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [('ledger', '0007_repeats')]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.CreateModel(
                    name='Cursor',
                    fields=[
                        ('name', models.CharField(max_length=20, primary_key=True, serialize=False)),
                        ('entry', models.CharField(default='0-0', max_length=40)),
                        ('facts', models.BigIntegerField(default=0)),
                        ('at_ms', models.BigIntegerField(default=0)),
                    ],
                    options={
                        'db_table': 'ledger_cursor',
                    },
                ),
                migrations.CreateModel(
                    name='Notice',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('kind', models.CharField(max_length=20)),
                        ('at_ms', models.BigIntegerField()),
                        ('topic', models.CharField(blank=True, max_length=200)),
                        ('subscription', models.CharField(blank=True, max_length=100)),
                        ('node', models.CharField(blank=True, max_length=100)),
                        ('count', models.BigIntegerField(default=0)),
                        ('detail', models.CharField(blank=True, max_length=500)),
                    ],
                    options={
                        'db_table': 'ledger_notice',
                        'indexes': [models.Index(fields=['-at_ms'], name='notice_time')],
                    },
                ),
            ]
        ),
    ]
