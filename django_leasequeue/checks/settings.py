"""Checks of LEASEQUEUE, the setting."""

import contextlib
from difflib import get_close_matches
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage
from django.core.exceptions import ImproperlyConfigured

from django_leasequeue.checks.messages import new_message
from django_leasequeue.conf import conf


def check_settings(**kwargs: Any) -> list[CheckMessage]:
    """What is wrong with LEASEQUEUE, its own name included."""
    wrong = [
        new_message(problem.id, problem.message, problem.hint)
        for problem in conf.problems()
    ]
    if not hasattr(settings, "LEASEQUEUE"):
        names = filter(str.isupper, dir(settings))
        for name in get_close_matches("LEASEQUEUE", names, n=1, cutoff=0.8):
            message = (
                f"The settings have {name}, which nothing reads, and no LEASEQUEUE."
            )
            wrong.append(new_message("W012", message, "Is it misspelt?"))
    return wrong


def check_immediate(**kwargs: Any) -> list[CheckMessage]:
    """That no site runs its jobs where it dispatches them."""
    with contextlib.suppress(ImproperlyConfigured):  # check_settings tells it
        if conf.immediate and not settings.DEBUG:
            message = "LEASEQUEUE['IMMEDIATE'] is True, and DEBUG is not: a request waits for "
            return [
                new_message(
                    "W011",
                    f"{message}each job that it dispatches.",
                    "It is for development. Leave it out, and run 'manage.py runjobs'.",
                )
            ]
    return []
