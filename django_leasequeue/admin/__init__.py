"""The queue in Django's admin: what there is, to look at."""

from django.contrib import admin

from django_leasequeue.admin.jobs import JobAdmin
from django_leasequeue.admin.workers import WorkerAdmin
from django_leasequeue.models import Job, Worker

__all__ = ["JobAdmin", "WorkerAdmin"]

admin.site.register(Job, JobAdmin)
admin.site.register(Worker, WorkerAdmin)
