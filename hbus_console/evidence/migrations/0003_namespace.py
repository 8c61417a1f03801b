"""Facts of engines without a ledger of their own are shown to people by the namespace of what they are about."""

from django.db import migrations, models


def name_namespaces(apps, schema_editor):
    rows = apps.get_model("evidence", "Evidence").objects.using(schema_editor.connection.alias)
    for subject in rows.values_list("subject", flat=True).distinct():
        namespace = subject.partition(":")[2].partition("/")[0]
        rows.filter(subject=subject).update(namespace=namespace)


class Migration(migrations.Migration):

    dependencies = [("evidence", "0002_evidence")]

    operations = [
        migrations.AddField(
            model_name="evidence",
            name="namespace",
            field=models.CharField(blank=True, db_default="/", max_length=200),
        ),
        migrations.RunPython(name_namespaces, migrations.RunPython.noop),
    ]
