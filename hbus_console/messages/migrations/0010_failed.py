"""The dead and the retrying are found by their last failure: over all topics, and in one."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [('ledger', '0009_identity')]

    operations = [
        migrations.AddIndex(
            model_name='ledgerevent',
            index=models.Index(condition=models.Q(('kind__in', ('retried', 'dead'))), fields=['kind', 'at_ms'], name='ledger_event_failed'),
        ),
        migrations.AddIndex(
            model_name='ledgerevent',
            index=models.Index(condition=models.Q(('kind__in', ('retried', 'dead'))), fields=['topic', 'kind', 'at_ms'], name='ledger_event_topic_failed'),
        ),
    ]
