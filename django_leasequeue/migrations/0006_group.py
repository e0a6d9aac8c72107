import django_leasequeue.db
from django.db import migrations


class Migration(migrations.Migration):

    dependencies = [
        ('leasequeue', '0005_step'),
    ]

    operations = [
        migrations.AddIndex(
            model_name='job',
            index=django_leasequeue.db.PartialIndex(fields=['group', 'id'], name='leasequeue_group', where={'group__isnull': False}),
        ),
    ]
