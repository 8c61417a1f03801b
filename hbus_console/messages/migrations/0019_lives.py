"""Which life of its topic a sample was taken in: a store may be emptied more than once before anybody asks."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('ledger', '0018_places'),
    ]

    operations = [
        migrations.AddField(
            model_name='lagsample',
            name='began_ms',
            field=models.BigIntegerField(default=0),
        ),
    ]
