"""The test project with its jobs in `other`, and reads that go to a replica which answers nothing.

A replica may be late by any time, so the worst is one that has nothing and can't be asked.
"""

from tests import settings
from tests.settings import *  # noqa: F403

DATABASES = {
    "default": {},
    "other": settings.DATABASES["other"],
    "replica": {"ENGINE": "django.db.backends.dummy"},
}


class Router:
    def db_for_read(self, model, **hints):
        is_of_django = model.__module__.startswith("django.contrib.")
        return "other" if is_of_django else "replica"

    def db_for_write(self, model, **hints):
        return "other"

    def allow_relation(self, one, other, **hints):
        return True

    def allow_migrate(self, db, app_label, **hints):
        return db == "other"


DATABASE_ROUTERS = ["tests.settings_replica.Router"]
