"""A dead letter is one entry of its transport's store. Every row that was there is kept, and has no digest."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [('deadletters', '0003_newest_and_covered')]

    operations = [
        migrations.RemoveConstraint(
            model_name='deadletter',
            name='one_dead_letter_per_death',
        ),
        migrations.AddField(
            model_name='deadletter',
            name='entry_digest',
            field=models.CharField(blank=True, max_length=32, null=True),
        ),
        migrations.AddConstraint(
            model_name='deadletter',
            constraint=models.UniqueConstraint(
                models.F('topic'), models.F('subscription'), models.F('entry_digest'), name='one_dead_letter_per_entry'
            ),
        ),
    ]
