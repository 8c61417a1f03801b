"""The table stays where it is; only the app that speaks of it is another."""

from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [('topics', '0005_breaker')]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.CreateModel(
                    name='Team',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('name', models.CharField(max_length=80, unique=True)),
                        ('contact', models.CharField(help_text='Where they are reached: mail address, channel or pager.', max_length=200)),
                        ('created_at', models.DateTimeField(auto_now_add=True)),
                    ],
                    options={
                        'db_table': 'topics_team',
                    },
                ),
            ]
        ),
    ]
