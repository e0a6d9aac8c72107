"""Settings of the example shop: all that it needs is Django and django_leasequeue."""

import os
from pathlib import Path

BASE_DIR = Path(__file__).resolve().parent.parent

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    "django_leasequeue",
    "shop",
]

DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": os.environ.get("SHOP_DATABASE", BASE_DIR / "shop.sqlite3"),
        "OPTIONS": {
            # Readers and the one writer don't hold each other up.
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL",
            # A transaction that will write takes its turn at the start. One that begins
            # as a reader and writes later fails at once if another has written meanwhile.
            "transaction_mode": "IMMEDIATE",
            # Seconds to wait for that turn.
            "timeout": 30,
        },
    }
}

# Each key has a default. Should the whole machine of a worker vanish, a stocktake waits a
# minute before another worker takes it; any other job waits for five.
LEASEQUEUE = {
    "QUEUES": {
        "stocktake": {"LEASE": 60, "SAFETY_BUFFER": 6},
    },
}

# The demo has a screen of its own to fill: it keeps what its workers tell in a file.
if "SHOP_LOG" in os.environ:
    LOGGING = {
        "version": 1,
        "formatters": {"line": {"format": "%(asctime)s [%(process)d] %(message)s"}},
        "handlers": {
            "file": {
                "class": "logging.FileHandler",
                "filename": os.environ["SHOP_LOG"],
                "formatter": "line",
            }
        },
        "loggers": {"django_leasequeue": {"handlers": ["file"], "level": "INFO"}},
    }

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
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
ROOT_URLCONF = "config.urls"
STATIC_URL = "static/"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
TIME_ZONE = "UTC"
# A shop that nobody outside this machine sees.
DEBUG = True
SECRET_KEY = "no secret, since the shop is an example"
