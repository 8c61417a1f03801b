from django.db import migrations, models

_FIELDS = {
    "max_handler_s": 0,
    "breaker_failures": 20,
    "breaker_share": 80,
    "breaker_window_s": 30,
    "breaker_open_s": 10,
    "breaker_longest_open_s": 300,
}


class Migration(migrations.Migration):
    dependencies = [("topics", "0004_leaving")]

    operations = [
        migrations.AddField(
            model_name="subscription", name=name, field=models.PositiveIntegerField(default=default)
        )
        for name, default in _FIELDS.items()
    ]
