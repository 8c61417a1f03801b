"""The table stays where it is; only the app that speaks of it is another."""

from django.db import migrations


class Migration(migrations.Migration):

    dependencies = [('ledger', '0007_repeats'), ('evidence', '0001_initial')]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.DeleteModel(
                    name='Cursor',
                ),
                migrations.DeleteModel(
                    name='Notice',
                ),
            ]
        ),
    ]
