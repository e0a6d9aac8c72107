"""A process that claims jobs of SQLite files until there are none left. Run by test_sqlite.

For each line on its standard input, {"file": ..., "mode": ..., "out": ...} as JSON, it
says "ready", waits for a line "go", claims once and says "begun", waits for "go" again,
empties the queue and says "done". `mode`: Django's transaction_mode. `out`: where it appends
the id of each job that it claims.
"""

import json
import os
import sys
import time
import uuid

import django
from django.db import connections

BETWEEN = 0.002  # seconds between the look and the mark, so that others come between


def main():
    from django_leasequeue import db

    look = db.lanes

    def lanes(*args):
        found = look(*args)
        time.sleep(BETWEEN)
        return found

    db.lanes = lanes
    for line in sys.stdin:
        order = json.loads(line)
        use(order["file"], order["mode"])
        await_word("ready")
        out = os.open(order["out"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        work_once(out)
        await_word("begun")
        while has_work():
            work_once(out)
        os.close(out)
        connections.close_all()
        say("done")


def use(file, mode):
    settings = connections["default"].settings_dict
    settings["NAME"] = file
    # Off for speed: nobody pulls the plug here.
    settings["OPTIONS"] = {
        "transaction_mode": mode,
        "timeout": 60,
        "init_command": "PRAGMA synchronous=OFF",
    }


def has_work():
    from django_leasequeue.models import Job

    return Job.objects.pending().exists()


def work_once(out):
    from django_leasequeue.models import Job
    from django_leasequeue.outcomes import Succeeded
    from django_leasequeue.selection import Selection

    jobs = Job.objects
    held = jobs.claim(Selection(), 3, uuid.uuid4(), f"claiming:{os.getpid()}").jobs
    for job in held:
        os.write(out, f"{job.id}\n".encode())
    settled = jobs.settle([(job, Succeeded()) for job in held])
    assert {answer.verdict.value for answer in settled} <= {"written"}


def await_word(word):
    say(word)
    assert sys.stdin.readline() == "go\n"


def say(word):
    print(word, flush=True)


if __name__ == "__main__":
    django.setup()
    main()
