"""Rules, alerts, silences and channels."""

from __future__ import annotations

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('topics', '0002_priorities_pauses_and_removals'),
    ]

    operations = [
        migrations.CreateModel(
            name='Channel',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=80, unique=True)),
                ('kind', models.CharField(choices=[('webhook', 'Webhook'), ('email', 'Email')], max_length=8)),
                ('url', models.CharField(blank=True, max_length=500)),
                ('secret', models.CharField(blank=True, max_length=200)),
                ('recipients', models.JSONField(blank=True, default=list)),
                ('enabled', models.BooleanField(default=True)),
                ('revision', models.PositiveBigIntegerField(default=1)),
            ],
            options={
                'ordering': ['name'],
            },
        ),
        migrations.CreateModel(
            name='Evaluation',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('at_ms', models.BigIntegerField(default=0)),
                ('watching_ms', models.BigIntegerField(default=0)),
                ('took_ms', models.PositiveIntegerField(default=0)),
                ('rules', models.PositiveIntegerField(default=0)),
                ('targets', models.PositiveIntegerField(default=0)),
                ('defaults_made', models.BooleanField(default=False)),
            ],
        ),
        migrations.CreateModel(
            name='Rule',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=80, unique=True)),
                ('kind', models.CharField(max_length=20)),
                ('topics', models.CharField(default='*', max_length=200)),
                ('group', models.CharField(blank=True, max_length=100)),
                ('of_team', models.BooleanField(default=False)),
                ('threshold', models.FloatField()),
                ('window_s', models.PositiveIntegerField(default=0)),
                ('for_s', models.PositiveIntegerField(default=0)),
                ('clear_below', models.FloatField(blank=True, null=True)),
                ('clear_s', models.PositiveIntegerField(default=60)),
                ('severity', models.CharField(choices=[('info', 'Info'), ('warning', 'Warning'), ('critical', 'Critical')], default='warning', max_length=8)),
                ('advice', models.TextField(blank=True)),
                ('enabled', models.BooleanField(default=True)),
                ('revision', models.PositiveBigIntegerField(default=1)),
                ('channels', models.ManyToManyField(blank=True, related_name='rules', to='alerts.channel')),
                ('team', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='topics.team')),
            ],
            options={
                'ordering': ['name'],
            },
        ),
        migrations.CreateModel(
            name='Alert',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('rule_name', models.CharField(max_length=80)),
                ('kind', models.CharField(max_length=20)),
                ('severity', models.CharField(choices=[('info', 'Info'), ('warning', 'Warning'), ('critical', 'Critical')], max_length=8)),
                ('topic', models.CharField(max_length=200)),
                ('subscription', models.CharField(blank=True, max_length=100)),
                ('state', models.CharField(choices=[('pending', 'Pending'), ('firing', 'Firing'), ('resolved', 'Resolved')], max_length=8)),
                ('threshold', models.FloatField()),
                ('value', models.FloatField()),
                ('peak', models.FloatField()),
                ('began_ms', models.BigIntegerField()),
                ('fired_ms', models.BigIntegerField(default=0)),
                ('better_ms', models.BigIntegerField(default=0)),
                ('resolved_ms', models.BigIntegerField(default=0)),
                ('over_because', models.CharField(blank=True, max_length=200)),
                ('measured_ms', models.BigIntegerField()),
                ('read_ms', models.BigIntegerField(default=0)),
                ('told_ms', models.BigIntegerField(default=0)),
                ('acknowledged_by', models.CharField(blank=True, max_length=150)),
                ('acknowledged_ms', models.BigIntegerField(default=0)),
                ('acknowledged_note', models.CharField(blank=True, max_length=300)),
                ('rule', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='alerts', to='alerts.rule')),
            ],
        ),
        migrations.CreateModel(
            name='Silence',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('topic', models.CharField(max_length=200)),
                ('subscription', models.CharField(blank=True, max_length=100)),
                ('by', models.CharField(max_length=150)),
                ('reason', models.CharField(max_length=300)),
                ('began_ms', models.BigIntegerField()),
                ('until_ms', models.BigIntegerField(db_index=True)),
                ('rule', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='silences', to='alerts.rule')),
            ],
        ),
        migrations.CreateModel(
            name='Notification',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('rule_name', models.CharField(max_length=80)),
                ('event', models.CharField(choices=[('fired', 'Fired'), ('resolved', 'Resolved'), ('test', 'Test')], max_length=8)),
                ('body', models.JSONField()),
                ('state', models.CharField(choices=[('waiting', 'Waiting'), ('sent', 'Sent'), ('failed', 'Failed')], default='waiting', max_length=8)),
                ('attempts', models.PositiveIntegerField(default=0)),
                ('made_ms', models.BigIntegerField()),
                ('next_ms', models.BigIntegerField()),
                ('sent_ms', models.BigIntegerField(default=0)),
                ('answer', models.CharField(blank=True, max_length=300)),
                ('alerts', models.ManyToManyField(related_name='notifications', to='alerts.alert')),
                ('channel', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='notifications', to='alerts.channel')),
            ],
            options={
                'indexes': [models.Index(fields=['state', 'next_ms'], name='notification_due'), models.Index(fields=['channel', '-made_ms'], name='notification_channel'), models.Index(fields=['made_ms'], name='notification_age')],
            },
        ),
        migrations.CreateModel(
            name='Reading',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('at_ms', models.BigIntegerField()),
                ('value', models.FloatField()),
                ('alert', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='readings', to='alerts.alert')),
            ],
            options={
                'indexes': [models.Index(fields=['alert', 'at_ms'], name='alert_reading')],
            },
        ),
        migrations.AddIndex(
            model_name='alert',
            index=models.Index(fields=['state', '-began_ms'], name='alert_state'),
        ),
        migrations.AddIndex(
            model_name='alert',
            index=models.Index(fields=['resolved_ms'], name='alert_resolved'),
        ),
        migrations.AddConstraint(
            model_name='alert',
            constraint=models.UniqueConstraint(condition=models.Q(('state__in', ('pending', 'firing'))), fields=('rule', 'topic', 'subscription'), name='one_open_alert_per_target'),
        ),
    ]
