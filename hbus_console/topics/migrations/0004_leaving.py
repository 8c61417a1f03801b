from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("topics", "0003_partitions_and_failed_heads")]

    operations = [
        migrations.AddField(
            model_name="topic",
            name="leaving",
            field=models.CharField(blank=True, default="", max_length=32),
            preserve_default=False,
        ),
    ]
