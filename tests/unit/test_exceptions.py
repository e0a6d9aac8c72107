"""The package's errors: facts as attributes, sentences that say what to do."""

import copy
import inspect
import pickle

import pytest

from django_leasequeue import exceptions
from django_leasequeue.exceptions import LeaseQueueError

EXAMPLES = [
    exceptions.UnknownTask("shop.send", close="shop.sent"),
    exceptions.UndiscoverableTask("shop.send", "shop.views"),
    exceptions.DedupConflict("order:7", "mail", "shop.send", 41, "shop.bill"),
    exceptions.DispatchConflict("order:7", "mail", "a snapshot hides it"),
    exceptions.RetryRefused(41, "job 42 has its dedup id", holder_id=42),
    exceptions.JobNotRunnable(41, "it has ended"),
    exceptions.NoResult("nothing"),
    exceptions.JobFailed(41, "builtins.ValueError", "as asked", "Traceback …"),
    exceptions.JobWasCancelled(41),
    exceptions.JobGone(41),
    exceptions.WaitTimeout("job 41", 5),
    exceptions.WaitInTransaction("default"),
    exceptions.JobRunAborted(41, "its lease ended"),
    exceptions.JobCancelled(41),
    exceptions.JobTimeout(30, killed_after=35.2),
    exceptions.StepRefused(41, "charge", "a transaction is open"),
    exceptions.UnsupportedResult("Unsupported type: <class 'object'>"),
    exceptions.WorkersLost("killed by SIGKILL"),
    exceptions.TransactionLeftOpen("left open"),
    exceptions.Retry(delay=5, reason="busy"),
    exceptions.Discard("no such order"),
    exceptions.Snooze(delay=5),
]
each = pytest.mark.parametrize(
    "error", EXAMPLES, ids=lambda error: type(error).__name__
)


def test_every_error_has_an_example():
    """All classes of the module are looked at below, and have one base."""
    classes = {
        found
        for _, found in inspect.getmembers(exceptions, inspect.isclass)
        if found.__module__ == exceptions.__name__
    }
    assert {type(error) for error in EXAMPLES} == classes - {LeaseQueueError}
    assert all(issubclass(found, LeaseQueueError) for found in classes)


@each
def test_every_fact_is_in_the_message(error):
    """Whatever is an attribute is also told, unless it is only for the queue, or too long."""
    for name, value in vars(error).items():
        if name not in ("delay", "traceback"):
            assert str(value) in str(error), name


@each
def test_errors_survive_copy_and_pickle(error):
    """As when one crosses a process pool, which an error that can't be loaded would break."""
    for twin in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert type(twin) is type(error)
        assert str(twin) == str(error)
        assert vars(twin) == vars(error)


def test_unknown_task_is_a_lookup_error():
    """Code that looks a task up by name may catch what it catches elsewhere."""
    assert isinstance(exceptions.UnknownTask("shop.send"), LookupError)


def test_undiscoverable_task_tells_what_to_do():
    """The message names the setting and the value to put there."""
    text = str(exceptions.UndiscoverableTask("shop.views.send", "shop.views"))
    assert "add 'shop.views' to LEASEQUEUE['TASK_MODULES']" in text


def test_reasons_have_defaults():
    """Raised without a reason, Retry, Discard and Snooze still say what happened."""
    for error in (exceptions.Retry(), exceptions.Discard(), exceptions.Snooze(1)):
        assert str(error).startswith("The task ")
