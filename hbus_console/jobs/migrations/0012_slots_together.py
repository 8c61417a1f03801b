"""Rows that are decided in the same second lie together in the index that judges them, and are written together."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [('jobs', '0011_indexes_of_rare_runs')]

    operations = [
        migrations.RemoveConstraint(model_name='jobrun', name='one_run_of_a_slot'),
        migrations.AddConstraint(
            model_name='jobrun',
            constraint=models.UniqueConstraint(
                condition=models.Q(('kind', 'schedule')),
                fields=('slot', 'job', 'kind', 'part'),
                name='one_run_of_a_slot',
            ),
        ),
    ]
