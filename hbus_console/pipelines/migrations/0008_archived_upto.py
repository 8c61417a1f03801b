from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("pipelines", "0007_audited_subjects")]

    operations = [
        migrations.AddField(
            model_name="archivedtopic",
            name=name,
            field=models.BigIntegerField(default=0),
        )
        for name in ("archived_upto_ms", "rolled_upto_ms")
    ]
