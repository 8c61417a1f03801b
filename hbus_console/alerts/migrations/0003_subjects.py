"""Alerts and silences name what they are about by a subject, rules by a scope of namespaces and a pattern on names."""

from django.db import migrations, models

#: The kinds whose rules were made with the first start until now.
FIRST_KINDS = [
    'breaker_open', 'dead_letter_limit', 'dead_letter_rate', 'dead_letters', 'lag', 'oldest', 'parked',
    'publish_failures', 'silent_topic',
]


def fill(apps, schema_editor):
    """Until now, what had a name in its topic was a subscription."""
    for name in ('Alert', 'Silence'):
        rows = apps.get_model('alerts', name).objects
        rows.filter(subject_name='').update(subject_kind='topic')
        rows.exclude(subject_name='').update(subject_kind='subscription')
    apps.get_model('alerts', 'Evaluation').objects.filter(first_start=True).update(defaults_made=FIRST_KINDS)


def empty(apps, schema_editor):
    """Back again: what was neither a topic nor a subscription was not known."""
    for name in ('Alert', 'Silence'):
        rows = apps.get_model('alerts', name).objects
        rows.exclude(subject_kind__in=('topic', 'subscription')).delete()
    apps.get_model('alerts', 'Evaluation').objects.exclude(defaults_made=[]).update(first_start=True)


class Migration(migrations.Migration):

    dependencies = [('alerts', '0002_teams')]

    operations = [
        migrations.RemoveConstraint(model_name='alert', name='one_open_alert_per_target'),
        migrations.RenameField('alert', 'topic', 'namespace'),
        migrations.RenameField('alert', 'subscription', 'subject_name'),
        migrations.RenameField('silence', 'topic', 'namespace'),
        migrations.RenameField('silence', 'subscription', 'subject_name'),
        migrations.RenameField('rule', 'topics', 'scope'),
        migrations.RenameField('rule', 'group', 'pattern'),
        migrations.RenameField('evaluation', 'defaults_made', 'first_start'),
        migrations.AlterField('alert', 'namespace', models.CharField(blank=True, max_length=200)),
        migrations.AlterField('alert', 'subject_name', models.CharField(blank=True, max_length=300)),
        migrations.AlterField('alert', 'kind', models.CharField(max_length=40)),
        migrations.AlterField('silence', 'namespace', models.CharField(blank=True, max_length=200)),
        migrations.AlterField('silence', 'subject_name', models.CharField(blank=True, max_length=300)),
        migrations.AlterField('rule', 'kind', models.CharField(max_length=40)),
        migrations.AddField('alert', 'subject_kind', models.CharField(default='', max_length=40), preserve_default=False),
        migrations.AddField(
            'silence', 'subject_kind', models.CharField(default='', max_length=40), preserve_default=False
        ),
        migrations.AddField('evaluation', 'defaults_made', models.JSONField(default=list)),
        migrations.RunPython(fill, empty),
        migrations.RemoveField('evaluation', 'first_start'),
        migrations.AddConstraint(
            model_name='alert',
            constraint=models.UniqueConstraint(
                condition=models.Q(('state__in', ('pending', 'firing'))),
                fields=('rule', 'subject_kind', 'namespace', 'subject_name'),
                name='one_open_alert_per_target',
            ),
        ),
    ]
