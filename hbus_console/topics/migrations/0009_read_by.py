"""Who read a topic that is removed from a store: with the topic goes what said so."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('topics', '0008_moved_at'),
    ]

    operations = [
        migrations.AddField(
            model_name='storeremoval',
            name='read_by',
            field=models.CharField(blank=True, max_length=200),
        ),
    ]
