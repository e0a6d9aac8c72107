"""The table of the two floors, the least that a queue needs, and what chaos leaves behind."""

from django.db import models

from django_leasequeue.db import PartialIndex


class FloorJob(models.Model):
    """A job without lease, retries, dedup or errors."""

    status = models.SmallIntegerField(default=0)  # 0 waits, 1 runs, 2 has finished
    priority = models.IntegerField(default=0)
    args = models.JSONField()
    created_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [
            PartialIndex(
                fields=["-priority", "id"],
                where={"status": 0},
                name="benchmarks_floor",
            )
        ]


class ChaosEffect(models.Model):
    """What a job of benchmarks.chaos has done: one row for each run that got so far.

    `step`: which of a job's steps has done it; 0 is the job itself.
    """

    job = models.BigIntegerField(db_index=True)
    claim = models.IntegerField()
    step = models.IntegerField(default=0)
