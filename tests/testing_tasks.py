"""Toy tasks for the tests of the test kit: see tests/database/test_testing.py."""

from django.db import connection, transaction

from django_leasequeue import Retry, Snooze, task
from django_leasequeue.backoff import Fixed
from tests.models import Effect

SETTINGS = {"TASK_MODULES": ["tests.testing_tasks"]}
CALLS = []


@task
def note(word, other="x"):
    CALLS.append(word)
    return [word, other]


@task
async def note_soon(word):
    CALLS.append(word)
    return word


@task(max_attempts=3, backoff=Fixed(600))
def third_time(word):
    CALLS.append(word)
    if CALLS.count(word) < 3:
        raise ConnectionError(word)
    return CALLS.count(word)


@task
def dispatch_at_commit(word):
    with transaction.atomic():
        transaction.on_commit(lambda: note.dispatch(word))
    try:
        with transaction.atomic():
            transaction.on_commit(lambda: note.dispatch("never"))
            raise OSError
    except OSError:
        pass


@task
def fail(word):
    raise ValueError(word)


@task
def leave_a_mess(word):
    """End with an error of the database, which breaks the transaction that it is in."""
    CALLS.append(word)
    transaction.on_commit(lambda: CALLS.append("at the commit of what is undone"))
    first = Effect.objects.create(name=word)
    Effect.objects.create(pk=first.pk, name=word)


@task
def leave_a_bare_mess(word):
    """The same, by a statement of which Django knows nothing."""
    CALLS.append(word)
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM no_such_table")


@task(atomic=True, timeout=10)
def leave_an_atomic_mess(word):
    """The same, in a transaction of the job's own."""
    leave_a_mess(word)


@task
def close_the_connection(word):
    connection.close()
    CALLS.append(word)


@task
def snooze_once(word):
    CALLS.append(word)
    if CALLS.count(word) == 1:
        raise Snooze(3600)


@task(max_attempts=2)
def retry(word):
    raise Retry(delay=5)


@task
def dispatch_more(number):
    CALLS.append(number)
    if number:
        dispatch_more.dispatch(number - 1)


@task(takes_context=True)
def two_steps(context, word):
    first = context.step("first", make_effect, f"{word}-1")
    context.progress(1, 2, "half")
    return [first, context.step("second", make_effect, f"{word}-2"), context.recoveries]


@task(takes_context=True)
async def two_steps_soon(context, word):
    first = await context.astep("first", make_effect, f"{word}-1")
    return [first, await context.astep("second", make_effect, f"{word}-2")]


@task(takes_context=True)
def checked(context, word):
    CALLS.append((word, context.lease_lost))
    context.check()
    Effect.objects.create(name=word, pid=0)


@task
def effect_each_time(name):
    make_effect(name)


@task
def effect_once(name):
    Effect.objects.get_or_create(name=name, defaults={"pid": 0})


@task(atomic=True, timeout=60)
def effect_with_success(name):
    make_effect(name)


def make_effect(name):
    return Effect.objects.create(name=name, pid=0).name
