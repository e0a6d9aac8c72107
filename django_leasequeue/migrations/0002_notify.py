from django.db import migrations

from django_leasequeue.operations import NotifyWorkers


class Migration(migrations.Migration):

    dependencies = [
        ('leasequeue', '0001_initial'),
    ]

    operations = [
        NotifyWorkers(),
    ]
