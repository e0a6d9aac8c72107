"""URLs of a project whose only admin is a site of its own, with the models registered by hand."""

from django.contrib.admin import AdminSite
from django.urls import path

from django_leasequeue import admin as ours
from django_leasequeue.models import Job, Queue, Schedule, Worker

ROOT = "/back/office/"
site = AdminSite(name="backstage")
site.register(Job, ours.JobAdmin)
site.register(Queue, ours.QueueAdmin)
site.register(Schedule, ours.ScheduleAdmin)
site.register(Worker, ours.WorkerAdmin)

urlpatterns = [path(ROOT.removeprefix("/"), site.urls)]
