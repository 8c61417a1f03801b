"""When a topic was moved last: what it was published before, its transport of now does not know."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('topics', '0007_features'),
    ]

    operations = [
        migrations.AddField(
            model_name='topic',
            name='moved_at',
            field=models.DateTimeField(blank=True, null=True),
        ),
    ]
