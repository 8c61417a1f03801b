"""Names what operations work on by its subject, instead of by topic, subscription and message."""

from __future__ import annotations

from django.db import migrations, models
from django.db.models import F, Value
from django.db.models.functions import Concat, JSONObject


def tell_subjects(apps, schema_editor):
    database = schema_editor.connection.alias
    items = apps.get_model("operations", "OperationItem").objects.using(database)
    operations = apps.get_model("operations", "Operation").objects.using(database)
    items.exclude(subscription="").update(facets=JSONObject(subscription=F("subscription")))
    # A move told of subscriptions, and of no message.
    items.filter(name="").update(kind="subscription", name=F("subscription"), facets={})
    # The copies of a replay into another topic lie there; all others beside their originals.
    elsewhere = operations.filter(kind="replay", spec__has_key="into_topic")
    for operation in elsewhere.iterator():
        _place(items.filter(operation=operation), Value(f"message:{operation.spec['into_topic']}/"))
    _place(items.exclude(became__startswith="message:"), Value("message:"), F("namespace"), Value("/"))


def _place(items, *before):
    items.exclude(became="").update(became=Concat(*before, F("became"), output_field=models.CharField()))


class Migration(migrations.Migration):
    dependencies = [("operations", "0001_initial")]

    operations = [
        migrations.RenameField(model_name="operation", old_name="topic", new_name="namespace"),
        migrations.RemoveIndex(model_name="operationitem", name="operation_item_message"),
        migrations.RemoveIndex(model_name="operationitem", name="operation_item_copy"),
        migrations.RenameField(model_name="operationitem", old_name="topic", new_name="namespace"),
        migrations.RenameField(model_name="operationitem", old_name="message_id", new_name="name"),
        migrations.RenameField(model_name="operationitem", old_name="new_message_id", new_name="became"),
        migrations.AlterField(
            model_name="operationitem", name="namespace", field=models.CharField(blank=True, max_length=200)
        ),
        migrations.AlterField(
            model_name="operationitem", name="name", field=models.CharField(blank=True, max_length=300)
        ),
        migrations.AlterField(
            model_name="operationitem", name="became", field=models.CharField(blank=True, max_length=542)
        ),
        migrations.AddField(
            model_name="operationitem",
            name="kind",
            field=models.CharField(default="message", max_length=40),
            preserve_default=False,
        ),
        migrations.AddField(model_name="operationitem", name="facets", field=models.JSONField(default=dict)),
        migrations.RunPython(tell_subjects, migrations.RunPython.noop, elidable=False),
    ]
