"""Settings of the test project, for every database.

LEASEQUEUE_TEST_DB        sqlite (default), postgres, mariadb or mysql
LEASEQUEUE_TEST_*_URL     where the server is; `python -m tests.servers` prints them
LEASEQUEUE_TEST_RUN       part of the database names; each pytest process has its own
LEASEQUEUE_TEST_NAMES     JSON: alias -> name of a database that exists, for worker
                          processes (helpers.worker_environment() makes it)
LEASEQUEUE_TEST_SETTINGS  JSON: the LEASEQUEUE setting, for worker processes
LEASEQUEUE_TEST_POOLED    whether the url leads to a pooler that shares sessions
LEASEQUEUE_TEST_OPTIONS   JSON: OPTIONS of the databases on a server, such as a pool
LEASEQUEUE_TEST_SQLITE    wal (default), or plain for SQLite as Django sets it up by itself
"""

import json
import os
import tempfile
from pathlib import Path
from urllib.parse import unquote, urlsplit

ENGINES = {
    "sqlite": "django.db.backends.sqlite3",
    "postgres": "django.db.backends.postgresql",
    "mariadb": "django.db.backends.mysql",
    "mysql": "django.db.backends.mysql",
}
DATABASE = os.environ.get("LEASEQUEUE_TEST_DB", "sqlite")
RUN = os.environ.get("LEASEQUEUE_TEST_RUN") or str(os.getpid())
SQLITE_FOLDER = Path(tempfile.gettempdir()) / f"leasequeue-tests-{RUN}"
SQLITE_OPTIONS = {
    "wal": {
        "transaction_mode": "IMMEDIATE",
        "timeout": 60,
        "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=OFF",
    },
    "plain": {},
}


def _database(alias):
    names = json.loads(os.environ.get("LEASEQUEUE_TEST_NAMES", "{}"))
    if DATABASE == "sqlite":
        # A file: threads and processes share it, which they can't with :memory:.
        name = names.get(alias, str(SQLITE_FOLDER / f"{alias}.sqlite3"))
        options = SQLITE_OPTIONS[os.environ.get("LEASEQUEUE_TEST_SQLITE", "wal")]
        place = {"OPTIONS": options}
    else:
        name = names.get(alias, f"leasequeue_{RUN}_{alias}")
        place = _server()
    return {
        "ENGINE": ENGINES[DATABASE],
        "NAME": name,
        "TEST": {"NAME": name},
        **place,
    }


def _server():
    variable = f"LEASEQUEUE_TEST_{DATABASE.upper()}_URL"
    if variable not in os.environ:
        raise RuntimeError(
            f"{variable} is not set. Run the tests as 'python -m tests.servers "
            f"{DATABASE} -- python -m pytest ...', or keep servers up with 'python -m "
            "tests.servers' and set what it prints."
        )
    url = urlsplit(os.environ[variable])
    return {
        "OPTIONS": json.loads(os.environ.get("LEASEQUEUE_TEST_OPTIONS", "{}")),
        "DISABLE_SERVER_SIDE_CURSORS": "LEASEQUEUE_TEST_POOLED" in os.environ,
        "HOST": url.hostname,
        "PORT": str(url.port or ""),
        "USER": unquote(url.username or ""),
        "PASSWORD": unquote(url.password or ""),
    }


if DATABASE == "sqlite" and "LEASEQUEUE_TEST_RUN" in os.environ:
    SQLITE_FOLDER.mkdir(exist_ok=True)  # for trials by hand; see also conftest.py

DATABASES = {alias: _database(alias) for alias in ("default", "other")}
LEASEQUEUE = json.loads(os.environ.get("LEASEQUEUE_TEST_SETTINGS", "{}"))
# Unknown to Django 5.2, and without effect there.
TASKS = {
    "default": {
        "BACKEND": "django_leasequeue.backend.LeaseQueueBackend",
        "QUEUES": [],
    }
}

# The processes that the tests start show no pages: a tenth of their start would be to
# load the admin's. That a worker starts beside them, other projects of the tests prove.
ADMIN = (
    "django.contrib.admin.apps.SimpleAdminConfig"
    if "LEASEQUEUE_TEST_NAMES" in os.environ
    else "django.contrib.admin"
)
INSTALLED_APPS = [
    ADMIN,
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "django_leasequeue",
    "tests",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]
# Tests of short leases run atomic toys as well, which by then have too long a timeout.
SILENCED_SYSTEM_CHECKS = ["leasequeue.E202"]
ROOT_URLCONF = "tests.urls"
STATIC_URL = "static/"
# Not the one that the package sets for itself.
DEFAULT_AUTO_FIELD = "django.db.models.AutoField"
SECRET_KEY = "only for tests"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
USE_TZ = True
# Neither UTC nor whole hours from it, with DST: a time taken for UTC by mistake shows.
TIME_ZONE = "America/St_Johns"
