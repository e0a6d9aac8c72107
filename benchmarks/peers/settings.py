"""Django settings of the system that the variable PEER names."""

import os

from benchmarks.peers.system import load
from benchmarks.settings import *  # noqa: F403

# Connections stay open, as on a production site.
DATABASES["default"]["CONN_MAX_AGE"] = None  # noqa: F405
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "root": {"level": "WARNING"},
}
globals().update(load(os.environ["PEER"]).settings or {})
