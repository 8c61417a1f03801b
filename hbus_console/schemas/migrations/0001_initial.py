"""The table stays where it is; only the app that speaks of it is another."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [('topics', '0006_teams')]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.CreateModel(
                    name='SchemaVersion',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('version', models.PositiveIntegerField()),
                        ('body', models.JSONField()),
                        ('note', models.CharField(blank=True, max_length=300)),
                        ('created_at', models.DateTimeField(auto_now_add=True)),
                        ('created_by', models.CharField(max_length=150)),
                        ('topic', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='schemas', to='topics.topic')),
                    ],
                    options={
                        'db_table': 'topics_schemaversion',
                        'ordering': ['-version'],
                        'constraints': [models.UniqueConstraint(fields=('topic', 'version'), name='one_schema_per_version')],
                    },
                ),
            ]
        ),
    ]
