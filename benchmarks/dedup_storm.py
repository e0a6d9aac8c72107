"""Dispatchers and workers on a few dedup ids, all the time at once, in processes of their own.

    python -m tests.servers mysql -- env LEASEQUEUE_TEST_DB=mysql python -m benchmarks.dedup_storm
    ... --remove            workers remove each job that has finished
    ... --dispatch inside   in transactions of the caller; also replacing, batch
    ... --break-order       lock through the dedup index: InnoDB may deadlock, with --remove

It goes on until --added jobs were added and --lost inserts were lost, with new ids for the
old ones after each --fresh added jobs; checks that all was right; prints a row of the table in
docs/dedup.md; and exits with 1 if anything was wrong. The server should be its own: on MySQL
and MariaDB deadlocks are counted for the whole server.
"""

import argparse
import json
import multiprocessing
import os
import sys
import traceback
from collections import Counter
from contextlib import contextmanager

import django


def main(arguments=None):
    """Run a storm; returns the exit code."""
    options = _parser().parse_args(arguments)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
    django.setup()
    with _database():
        before = _deadlocks()
        seconds, told, errors = _run(options)
        wrong = errors + _wrong(options, told)
        deadlocks = _deadlocks() - before
        wrong += _bad_deadlocks(options, told)
    _print(options, seconds, told, deadlocks, wrong)
    return bool(wrong)


def _parser():
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.dedup_storm", description=__doc__.split("\n\n")[0]
    )
    for name, usual in {
        "dispatchers": 6,
        "workers": 4,
        "ids": 3,
        "added": 1000,
        "lost": 1000,
        "fresh": 20,
        "seconds": 300,
    }.items():
        parser.add_argument(f"--{name}", type=int, default=usual)
    kinds = ["alone", "inside", "replacing", "batch"]
    parser.add_argument("--dispatch", choices=kinds, default="alone")
    parser.add_argument("--rollbacks", type=float, default=0.0)
    parser.add_argument("--remove", action="store_true")
    parser.add_argument("--break-order", action="store_true")
    return parser


@contextmanager
def _database():
    from django.db import connections

    connection = connections["default"]
    usual = connection.settings_dict["NAME"]
    name = connection.creation.create_test_db(verbosity=0, autoclobber=True)
    os.environ["LEASEQUEUE_TEST_NAMES"] = json.dumps({"default": name})
    try:
        yield
    finally:
        connections.close_all()
        connection.creation.destroy_test_db(usual, verbosity=0)


def _deadlocks():
    """How many the server has seen, by its own count."""
    from django.db import connection

    if connection.vendor == "postgresql":
        statement = (
            "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
        )
    elif connection.mysql_is_mariadb:
        statement = (
            "SELECT variable_value FROM information_schema.global_status "
            "WHERE variable_name = 'INNODB_DEADLOCKS'"
        )
    else:
        statement = (
            "SELECT count FROM information_schema.innodb_metrics "
            "WHERE name = 'lock_deadlocks'"
        )
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return int(cursor.fetchone()[0])


def _run(options):
    from django_leasequeue import clock

    context = multiprocessing.get_context("spawn")
    stop, drained, over = context.Event(), context.Event(), context.Event()
    added, lost = context.Value("i"), context.Value("i")
    gate = context.Barrier(options.dispatchers + options.workers + 2)
    processes = []
    for role, count, ends in [
        ("dispatch", options.dispatchers, stop),
        ("work", options.workers, drained),
        ("watch", 1, over),
    ]:
        for _ in range(count):
            mine, theirs = context.Pipe(duplex=False)
            process = context.Process(
                target=_child,
                args=(role, options, theirs, gate, ends, (added, lost)),
                daemon=True,
            )
            process.start()
            processes.append((role, process, mine))
    gate.wait(120)
    began = clock.now()
    while added.value < options.added or lost.value < options.lost:
        if stop.wait(0.1) or clock.now() - began > options.seconds:
            break
    stop.set()
    told, errors = {"dispatch": [], "work": [], "watch": []}, []
    for role, process, pipe in processes:
        if role == "work":
            drained.set()
        if role == "watch":
            over.set()
        if not pipe.poll(180):
            errors.append(f"A process ({role}) did not end.")
            process.kill()
            continue
        one, error = pipe.recv()
        told[role].append(one)
        errors += [error] if error else []
        process.join(60)
    return clock.now() - began, told, errors


def _child(role, options, pipe, gate, stop, counters):
    """One process: connects, waits for the others, plays its role, and tells."""
    django.setup()
    from django.db import connections

    from benchmarks import storm

    told, error = storm.Told(), None
    seen = [0]

    def report(added, lost):
        for counter, more in zip(counters, (added, lost - seen[0]), strict=True):
            with counter:
                counter.value += more
        seen[0] = lost

    try:
        connections["default"].ensure_connection()
        gate.wait(120)
        storm.ROLES[role](told, stop, lambda: counters[0].value, report, options)
    except BaseException:
        error = traceback.format_exc()
        if role == "dispatch":
            stop.set()
    connections.close_all()
    pipe.send((told, error))


def _wrong(options, told):
    """What was not as it must be, as texts."""
    from django_leasequeue.models import Job

    answers = [answer for one in told["dispatch"] for answer in one.answers]
    runs = Counter(pk for one in told["work"] for pk in one.runs)
    removed = {pk: at for one in told["work"] for pk, at in one.removed.items()}
    added = [answer for answer in answers if answer.added]
    began = {answer.pk: answer.began for answer in added}
    wrong = [f"Two unfinished jobs of {t}" for one in told["watch"] for t in one.twins]
    if len(began) != len(added):
        wrong.append("A job was added twice.")
    if runs != Counter(list(began)):
        wrong.append(f"Not one run per added job: {runs - Counter(list(began))} more.")
    for answer in answers:
        if answer.pk not in began or answer.ended < began[answer.pk]:
            wrong.append(f"{answer} was not stored yet.")
        elif removed.get(answer.pk, answer.ended) < answer.began:
            wrong.append(f"{answer} was stored no longer.")
    if not options.remove:
        stored = set(Job.objects.values_list("pk", flat=True))
        wrong += [f"Job {pk} was never stored." for pk in set(began) - stored]
    if not any(one.samples for one in told["watch"]):
        wrong.append("Nobody watched.")
    return wrong


def _bad_deadlocks(options, told):
    """Deadlocks that only a wrong order of locks explains.

    In transactions some are possible, as docs/dedup.md says; and where rows are removed MySQL
    has been seen to choose an INSERT as a victim, which is run again.
    """
    if options.dispatch == "inside":
        return []
    everybody = [one for group in told.values() for one in group]
    victims = sum((one.deadlocks for one in everybody), Counter())
    possible = {"INSERT"} if options.remove else set()
    return [f"{n} deadlocks of {s}" for s, n in victims.items() if s not in possible]


def _print(options, seconds, told, deadlocks, wrong):
    from django.conf import settings

    answers = [answer for one in told["dispatch"] for answer in one.answers]
    everybody = [one for group in told.values() for one in group]
    victims = sum((one.deadlocks for one in everybody), Counter())
    statements = "; ".join(f"{n} {sql}" for sql, n in victims.most_common()) or "none"
    settles = [s for one in told["work"] for s in one.settles]
    cells = [
        settings.DATABASE,
        "removed" if options.remove else "kept",
        options.dispatch + (" (order broken)" if options.break_order else ""),
        len(answers),
        sum(answer.added for answer in answers),
        sum(one.lost_inserts for one in everybody),
        deadlocks,
        statements,
        len(wrong),
    ]
    print("| " + " | ".join(map(str, cells)) + " |")
    samples = sum(one.samples for one in told["watch"])
    rolled_back = sum(one.rolled_back for one in told["dispatch"])
    print(
        f"{seconds:.1f} s, {samples} samples, {rolled_back} rolled back, "
        f"slowest settle {max(settles, default=0) * 1000:.0f} ms"
    )
    for text in wrong[:5]:
        print(text)


if __name__ == "__main__":
    sys.exit(main())
