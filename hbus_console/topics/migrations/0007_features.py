"""Schemas, subscriptions and teams have apps of their own; the tables stay where they are."""

from django.db import migrations


class Migration(migrations.Migration):

    dependencies = [
        ('topics', '0006_teams'),
        ('alerts', '0002_teams'),
        ('schemas', '0001_initial'),
        ('subscriptions', '0001_initial'),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.DeleteModel(name='Subscription'),
                migrations.DeleteModel(name='SchemaVersion'),
                migrations.DeleteModel(name='Team'),
            ]
        ),
    ]
