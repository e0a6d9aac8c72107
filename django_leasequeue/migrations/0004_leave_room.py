from django.db import migrations

from django_leasequeue.operations import LeaveRoom


class Migration(migrations.Migration):

    dependencies = [
        ('leasequeue', '0003_queue'),
    ]

    operations = [
        LeaveRoom(),
    ]
