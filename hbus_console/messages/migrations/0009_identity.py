"""A message is known by its topic too. Every row that was unique without it is unique with it."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [('ledger', '0008_evidence')]

    operations = [
        migrations.RemoveConstraint(
            model_name='ledgermessage',
            name='ledger_identity',
        ),
        migrations.AddConstraint(
            model_name='ledgermessage',
            constraint=models.UniqueConstraint(
                models.F('message_id'), models.F('topic'), models.F('source'), name='ledger_identity'
            ),
        ),
    ]
