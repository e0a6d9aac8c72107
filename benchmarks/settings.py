"""Django settings of a benchmark's processes.

BENCHMARK_DATABASE  JSON: one entry of DATABASES; `benchmarks.database` makes it
BENCHMARK_DIRECT    JSON: the same database by another way, for the tasks of chaos
BENCHMARK_SETTINGS  JSON: the LEASEQUEUE setting
"""

import json
import os

DATABASES = {"default": json.loads(os.environ["BENCHMARK_DATABASE"])}
DATABASES["direct"] = json.loads(
    os.environ.get("BENCHMARK_DIRECT", os.environ["BENCHMARK_DATABASE"])
)
LEASEQUEUE = json.loads(os.environ.get("BENCHMARK_SETTINGS", "{}"))
INSTALLED_APPS = ["django_leasequeue", "benchmarks"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
SECRET_KEY = "only for benchmarks"
USE_TZ = True
# The speed measures' atomic task has a longer timeout than the short leases of chaos.
SILENCED_SYSTEM_CHECKS = ["leasequeue.E202"]
