"""Whose message an event is of. What was booked before does not say so, and keeps its meaning: any of that id."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [('ledger', '0016_waiting')]

    operations = [
        migrations.AddField(
            model_name='ledgerevent',
            name='source',
            field=models.CharField(blank=True, max_length=300, null=True),
        ),
    ]
