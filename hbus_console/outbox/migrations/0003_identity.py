"""A message is known by its topic too. Every row that was unique without it is unique with it."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [('outbox', '0002_idempotency_key')]

    operations = [
        migrations.AlterField(
            model_name='outboxmessage',
            name='message_id',
            field=models.CharField(max_length=64),
        ),
        migrations.AddConstraint(
            model_name='outboxmessage',
            constraint=models.UniqueConstraint(fields=('topic', 'message_id'), name='outbox_identity'),
        ),
    ]
