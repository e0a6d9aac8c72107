"""The test project with an empty default database: everything lives in `other`.

LEASEQUEUE_TEST_ROUTED  1: a router leads there; else every call names the alias
"""

import os

from tests import settings
from tests.settings import *  # noqa: F403

DATABASES = {"default": {}, "other": settings.DATABASES["other"]}


class Router:
    def db_for_read(self, model, **hints):
        return "other"

    db_for_write = db_for_read


if os.environ.get("LEASEQUEUE_TEST_ROUTED") == "1":
    DATABASE_ROUTERS = ["tests.settings_no_default.Router"]
