"""Django settings of a benchmark's processes.

BENCHMARK_DATABASE  JSON: one entry of DATABASES; `benchmarks.database` makes it
BENCHMARK_SETTINGS  JSON: the LEASEQUEUE setting
"""

import json
import os

DATABASES = {"default": json.loads(os.environ["BENCHMARK_DATABASE"])}
LEASEQUEUE = json.loads(os.environ.get("BENCHMARK_SETTINGS", "{}"))
INSTALLED_APPS = ["django_leasequeue", "benchmarks"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
SECRET_KEY = "only for benchmarks"
USE_TZ = True
