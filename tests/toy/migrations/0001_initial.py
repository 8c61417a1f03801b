from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Lamp",
            fields=[
                ("id", models.BigAutoField(primary_key=True)),
                ("street", models.CharField(max_length=100)),
                ("name", models.CharField(max_length=100)),
                ("burning", models.BooleanField(default=False)),
                ("looks", models.PositiveIntegerField(default=0)),
            ],
            options={"ordering": ["street", "name"]},
        ),
    ]
