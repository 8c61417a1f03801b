"""The table stays where it is; only the app that speaks of it is another."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [('topics', '0006_teams'), ('teams', '0001_initial')]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.CreateModel(
                    name='Subscription',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('group', models.CharField(max_length=100)),
                        ('description', models.TextField(blank=True)),
                        ('handler', models.CharField(choices=[('code', 'Code'), ('webhook', 'Webhook')], default='code', max_length=8)),
                        ('handler_name', models.CharField(blank=True, max_length=200)),
                        ('webhook_url', models.URLField(blank=True, max_length=500)),
                        ('webhook_secret', models.CharField(blank=True, max_length=200)),
                        ('webhook_timeout_s', models.PositiveIntegerField(default=10)),
                        ('concurrency', models.PositiveIntegerField(default=4)),
                        ('max_attempts', models.PositiveIntegerField(default=5)),
                        ('backoff_s', models.JSONField(blank=True, default=list)),
                        ('lease_s', models.PositiveIntegerField(default=30)),
                        ('transactional', models.BooleanField(default=False)),
                        ('on_failed_head', models.CharField(choices=[('block', 'Block'), ('park', 'Park'), ('pass', 'Pass')], default='block', max_length=8)),
                        ('max_handler_s', models.PositiveIntegerField(default=0)),
                        ('breaker_failures', models.PositiveIntegerField(default=20)),
                        ('breaker_share', models.PositiveIntegerField(default=80)),
                        ('breaker_window_s', models.PositiveIntegerField(default=30)),
                        ('breaker_open_s', models.PositiveIntegerField(default=10)),
                        ('breaker_longest_open_s', models.PositiveIntegerField(default=300)),
                        ('held_fields', models.JSONField(blank=True, default=list)),
                        ('paused', models.BooleanField(default=False)),
                        ('pause_reason', models.CharField(blank=True, max_length=300)),
                        ('checkpoint', models.TextField(blank=True)),
                        ('checkpoint_at', models.DateTimeField(blank=True, null=True)),
                        ('created_at', models.DateTimeField(auto_now_add=True)),
                        ('updated_at', models.DateTimeField(auto_now=True)),
                        ('revision', models.PositiveBigIntegerField(default=1)),
                        ('team', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='subscriptions', to='teams.team')),
                        ('topic', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='subscriptions', to='topics.topic')),
                    ],
                    options={
                        'db_table': 'topics_subscription',
                        'ordering': ['topic__name', 'group'],
                        'constraints': [models.UniqueConstraint(fields=('topic', 'group'), name='one_group_per_topic')],
                    },
                ),
            ]
        ),
    ]
