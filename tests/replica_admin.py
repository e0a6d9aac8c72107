"""Every page of the admin once, and what is done there. Run by test_replica."""

import re

import django
from django.contrib import admin
from django.db import connections
from django.test import Client
from django.test.utils import setup_test_environment

ADMIN = "/admin/leasequeue"


def main():
    from django.contrib.auth import get_user_model

    from django_leasequeue import every
    from django_leasequeue.models import Job, Queue, Schedule
    from tests.admin.acting import fields
    from tests.admin.looking import NOON, make_worker
    from tests.admin.test_schedules import typed
    from tests.factories import JobFactory
    from tests.tasks import add

    client = Client()
    client.force_login(get_user_model().objects.create_superuser("root", password="x"))

    def page(path, data=None):
        url = f"{ADMIN}{path}"
        found = client.post(url, data) if data is not None else client.get(url)
        while found.status_code == 302:
            found = client.get(found.url)
        assert found.status_code == 200, (path, found.status_code)
        return found.content.decode()

    def done(verb, job, words):
        html = page("/job/", {"action": verb, "_selected_action": job.pk})
        assert words in page("/job/", fields(html)), verb

    make_worker(using="other")
    given = {"group": "g", "concurrency": "k", "dedup": "d"}
    job = Job.objects.dispatch(add, [1, 2], delay=600, **given).job
    after = Job.objects.dispatch(add, [1, 2], after_group="g").job
    held = JobFactory(using="other", leased=True, worker="host:7:abc")
    ended = JobFactory(using="other", failed=True, group="g", released_dedup_id="d")
    page("/queue/add/", {"name": "mail", "reason": "none"})
    queue = Queue.objects.using("other").get()
    schedule = Schedule.objects.using("other").create(
        name="nightly",
        **every(minutes=10).columns(add.name),
        **dict.fromkeys(["created_at", "since", "last_tick"], NOON),
    )
    ticked = JobFactory(using="other", schedule=schedule.name, tick=NOON)

    for path in ("/", "/job/", "/queue/", "/worker/", "/schedule/", "/schedule/add/"):
        page(path)
    page("/job/?q=mail")
    page("/job/?status__exact=failed&task=x&group=g")
    for one in (job, after, held, ended, ticked):
        page(f"/job/{one.pk}/change/")
    for model in ("queue", "worker", "schedule"):
        [url] = set(re.findall(rf"/{model}/[^/\"?]+/change/", page(f"/{model}/")))
        page(url)
    done("run", job, "1 job is due now.")
    done("release", held, "waits again.")
    done("cancel", job, "1 job is cancelled.")
    done("retry", ended, "to run again.")
    done("remove", ended, "1 job is deleted.")
    for verb in ("cancel", "retry", "remove"):
        html = page(f"/job/{held.pk}/{verb}/")
        page(f"/job/{held.pk}/{verb}/", fields(html))
    assert not Job.objects.using("other").filter(pk=held.pk).exists()
    for verb in ("resume", "pause"):
        page("/queue/", {"action": verb, "_selected_action": queue.pk})
    page("/job/dashboard/", {"queue": "mail", "verb": "resume"})
    page(f"/queue/{queue.pk}/delete/", {"post": "yes"})
    assert not Queue.objects.using("other").exists()
    for verb in ("pause", "resume", "run_now"):
        page("/schedule/", {"action": verb, "_selected_action": schedule.pk})
    page("/schedule/add/", typed(name="mine"))
    assert Schedule.objects.using("other").count() == 2


if __name__ == "__main__":
    django.setup()
    setup_test_environment()
    admin.autodiscover()  # which the settings leave out of processes without pages
    main()
    connections.close_all()
    print("done")
