from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('pipelines', '0008_archived_upto'),
    ]

    operations = [
        migrations.CreateModel(
            name='AskedBusAudit',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('at', models.DateTimeField(auto_now_add=True, db_index=True)),
                ('asked_by', models.CharField(max_length=150)),
                ('topics', models.JSONField(default=list)),
                ('since', models.TextField(blank=True)),
                ('until', models.TextField(blank=True)),
                ('beside', models.BooleanField(default=False)),
                ('run', models.BigIntegerField(db_index=True, null=True)),
            ],
        ),
    ]
