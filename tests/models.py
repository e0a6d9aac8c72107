"""Rows that the toy tasks write, so that a test sees what has really been run."""

from django.db import models


class Effect(models.Model):
    """One thing that a task has done. Committed with the task's own transaction."""

    name = models.CharField(max_length=100)
    pid = models.IntegerField(default=0)

    def __str__(self):
        return self.name
