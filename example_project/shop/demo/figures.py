"""What the demo counts when all is done, and what must come out."""

from typing import NamedTuple

from django.db.models import Count, F, Q, Sum
from shop.models import Order, Product, SalesReport, Stocktake

from django_leasequeue.models import Job
from django_leasequeue.states import Status

ORDERS = 60
# How often the payment provider reports the payment of each order.
PAYMENT_REPORTS = 4
# Jobs: a booking and a receipt for each order, the sales report, the stocktake.
JOBS = 2 * ORDERS + 2
SKIPPED = ORDERS * PAYMENT_REPORTS


class Figure(NamedTuple):
    name: str
    found: int
    expected: int
    what: str


def figures():
    """Return what the table of jobs tells."""
    jobs = Job.objects.aggregate(
        made=Count("pk"),
        skipped=Sum("suppressed"),
        attempts=Sum("attempts"),
        recovered=Sum("recoveries"),
        retried=Sum(F("attempts") - 1, filter=Q(attempts__gt=1), default=0),
        succeeded=Count("pk", filter=Q(status=Status.SUCCEEDED)),
        others=Count("pk", filter=~Q(status=Status.SUCCEEDED)),
    )
    return [
        Figure(
            "dispatched",
            jobs["made"] + jobs["skipped"],
            JOBS + SKIPPED,
            "calls of dispatch() that were committed",
        ),
        Figure("skipped", jobs["skipped"], SKIPPED, "the receipt had a job already"),
        # Attempts are runs that ended by themselves; those of lost workers come on top.
        Figure(
            "run",
            jobs["attempts"] + jobs["recovered"],
            JOBS + 2 + 1,
            "runs of a task, those that came to nothing included",
        ),
        Figure("retried", jobs["retried"], 2, "the report, until its rates were there"),
        Figure("recovered", jobs["recovered"], 1, "the stocktake, after SIGKILL"),
        Figure("succeeded", jobs["succeeded"], JOBS, "jobs"),
        Figure("failed", jobs["others"], 0, "jobs that ended otherwise, or not at all"),
    ]


def contradictions(stock):
    """Yield, as sentences, where the shop's own rows don't tell what the figures tell.

    `stock`: the pieces in stock before the first order.
    """
    sold = Order.objects.aggregate(pieces=Sum("quantity"))["pieces"]
    left = Product.objects.aggregate(pieces=Sum("stock"))["pieces"]
    if left != stock - sold:
        yield f"{left} pieces are in stock, not {stock - sold}"
    if Order.objects.count() != ORDERS:
        yield f"there are {Order.objects.count()} orders, not {ORDERS}"
    for column, what in {"receipts": "a receipt", "bookings": "a booking"}.items():
        wrong = Order.objects.exclude(**{column: 1}).count()
        if wrong:
            yield f"{wrong} orders have no or more than {what}"
    report, stocktake = SalesReport.objects.get(), Stocktake.objects.get()
    if report.tries != 3 or not report.text:
        yield f"the report was tried {report.tries} times and says {report.text!r}"
    if stocktake.tries != 2 or stocktake.counted != stocktake.shelves:
        yield (
            f"{stocktake.counted} of {stocktake.shelves} shelves were counted, "
            f"in {stocktake.tries} runs"
        )
