"""What the demo counts when all is done, and what must come out."""

from typing import NamedTuple

from django.db.models import F, Sum
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
    jobs = Job.objects.all()
    made, skipped = jobs.count(), total(jobs, "suppressed")
    attempts, recovered = total(jobs, "attempts"), total(jobs, "recoveries")
    succeeded = jobs.filter(status=Status.SUCCEEDED)
    return [
        Figure(
            "dispatched",
            made + skipped,
            JOBS + SKIPPED,
            "calls of dispatch() that were committed",
        ),
        Figure(
            "skipped",
            skipped,
            SKIPPED,
            "of these: the order had its receipt's job already",
        ),
        # An attempt is a run that came to its end; lost workers add one run each.
        Figure("run", attempts + recovered, JOBS + 2 + 1, "calls of a task"),
        Figure(
            "retried",
            total(jobs.filter(attempts__gt=1), F("attempts") - 1),
            2,
            "of these: the report, until it had its exchange rates",
        ),
        Figure("recovered", recovered, 1, "of these: the stocktake, after SIGKILL"),
        Figure("succeeded", succeeded.count(), JOBS, "jobs"),
        Figure("failed", made - succeeded.count(), 0, "jobs"),
    ]


def total(jobs, of):
    """Return the sum of a column or an expression, 0 without jobs."""
    return jobs.aggregate(total=Sum(of, default=0))["total"]


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
