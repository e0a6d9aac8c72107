"""A new round of a job: everything that a run leaves behind starts anew, errors stay."""

from django.db.models import F, TextField
from django.db.models.functions import Coalesce

from django_leasequeue import db


def new_round() -> dict:
    """Return the columns that start another round, due now, with the waiting arguments if any.

    In this order: MySQL assigns from left to right, so what is read comes before what
    empties it.
    """
    text = TextField()
    return {
        "args": Coalesce(F("next_args"), F("args"), output_field=text),
        "kwargs": Coalesce(F("next_kwargs"), F("kwargs"), output_field=text),
        "next_args": None,
        "next_kwargs": None,
        "round": F("round") + 1,
        "attempts": 0,
        "recoveries": 0,
        "result": None,
        "progress": None,
        "rerun": False,
        "run_at": db.DatabaseNow(),
    }
