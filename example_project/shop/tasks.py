"""What the shop does in the background. Workers find this module by its name."""

import os
import time

from django.db.models import Count, F, Sum
from shop.models import Order, Product, SalesReport, Stocktake

from django_leasequeue import Dedup, cron, task
from django_leasequeue.backoff import Fixed


# "removed" rather than "finished": a payment that is reported once more, long after the
# receipt was sent, must not send another.
@task(
    queue="mail",
    max_attempts=5,
    dedup=lambda order_id: Dedup(f"receipt:{order_id}", until="removed"),
)
def send_receipt(order_id):
    """Send a receipt: one for each order, however often it is asked for."""
    time.sleep(0.02)  # no mail leaves this shop, but a mail server would take its time
    Order.objects.filter(pk=order_id).update(receipts=F("receipts") + 1)


@task(atomic=True, timeout=60)
def book_stock(order_id):
    """Take what was sold out of the stock: committed together with the job's success."""
    order = Order.objects.get(pk=order_id)
    Product.objects.filter(pk=order.product_id).update(
        stock=F("stock") - order.quantity
    )
    Order.objects.filter(pk=order_id).update(bookings=F("bookings") + 1)


@task(priority=50, takes_context=True, max_attempts=3, backoff=Fixed(0.1))
def build_report(context, report_id):
    """Sum up the sales. The exchange rates that it needs arrive at the third attempt."""
    SalesReport.objects.filter(pk=report_id).update(tries=F("tries") + 1)
    if context.attempt < 3:
        raise ConnectionError("The exchange rates are not there yet.")
    sales = Order.objects.aggregate(
        orders=Count("pk"), total=Sum(F("quantity") * F("product__price"))
    )
    text = f"{sales['orders']} orders, {sales['total']:.2f} in all"
    SalesReport.objects.filter(pk=report_id).update(text=text)
    return text


# The clock of Paris: at six there, whether it is summer or winter.
@task(schedule=cron("0 6 1 * *", tz="Europe/Paris"))
def report_month():
    """Have last month's sales summed up, on the first day of each month."""
    report = SalesReport.objects.create()
    build_report.dispatch(report.pk)


@task(queue="stocktake", takes_context=True)
def take_stock(context, stocktake_id):
    """Count shelf after shelf; after a crash, go on where the last run has stopped."""
    stocktake = Stocktake.objects.get(pk=stocktake_id)
    stocktake.tries += 1
    stocktake.pid = os.getpid()
    stocktake.save(update_fields=["tries", "pid"])
    while stocktake.counted < stocktake.shelves:
        context.check()
        if stocktake.counted == stocktake.blocked_after:
            time.sleep(0.05)
            stocktake.refresh_from_db()
        else:
            stocktake.counted += 1
            stocktake.save(update_fields=["counted"])
    return stocktake.counted
