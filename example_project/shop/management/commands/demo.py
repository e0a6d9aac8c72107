"""Tells the story of the shop, from an empty database to a table of what was done."""

import os
import secrets
import signal
import sys
import time
from pathlib import Path

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management import BaseCommand, CommandError, call_command
from django.db import connection
from shop.demo.figures import (
    ORDERS,
    PAYMENT_REPORTS,
    SKIPPED,
    contradictions,
    figures,
)
from shop.demo.processes import ended_by_signals, wait_for, worker
from shop.models import Order, Product, SalesReport, Stocktake
from shop.orders import CardDeclined, payment_reported, place_order
from shop.tasks import build_report, take_stock

from django_leasequeue.models import Job

PRODUCTS = {"Teapot": "34.00", "Cup": "9.50", "Saucer": "5.25", "Spoon": "3.10"}
STOCK_OF_EACH = 500
DECLINED = 2
KILLED_AFTER = 5  # shelves


class Command(BaseCommand):
    help = "Makes a new database, runs jobs on it, kills a worker, and counts what happened."

    def handle(self, **options):
        started = time.monotonic()
        with ended_by_signals():
            self.open_shop()
            self.take_orders()
            self.lose_a_worker()
            self.run_the_rest()
        self.count(time.monotonic() - started)
        self.invite()

    def open_shop(self):
        database = Path(connection.settings_dict["NAME"])
        self.log = database.with_suffix(".log")
        self.chapter("1", "A new database")
        connection.close()
        for file in (database, f"{database}-wal", f"{database}-shm", self.log):
            Path(file).unlink(missing_ok=True)
        call_command("migrate", verbosity=0)
        Product.objects.bulk_create(
            Product(name=name, price=price, stock=STOCK_OF_EACH)
            for name, price in PRODUCTS.items()
        )
        self.say(f"{shown(database)}: SQLite, migrated.")

    def take_orders(self):
        self.chapter("2", f"{ORDERS} orders, each in one transaction with its jobs")
        products = list(Product.objects.all())
        declined = 0
        for number in range(ORDERS + DECLINED):
            product = products[number % len(products)]
            card = "valid" if number < ORDERS else "expired"
            try:
                place_order(
                    f"customer{number}@example.com", product, number % 3 + 1, card=card
                )
            except CardDeclined:
                declined += 1
        self.say(
            f"{declined} more had an expired card: rolled back, their jobs with them."
        )
        for _ in range(PAYMENT_REPORTS):
            for order in Order.objects.all():
                payment_reported(order)
        self.say(
            f"Each payment is reported {PAYMENT_REPORTS} times, and each report asks for the "
            "receipt"
        )
        self.say(f"again: {SKIPPED} dispatches that find its job already there.")

    def lose_a_worker(self):
        self.chapter("3", "A worker is killed in the middle of a job")
        stocktake = Stocktake.objects.create(blocked_after=KILLED_AFTER)
        job = take_stock.dispatch(stocktake.pk).job
        with worker("--queues", "stocktake", log=self.log) as running:
            self.say(f"$ manage.py {running.command}")

            def blocked():
                stocktake.refresh_from_db()
                return stocktake.counted == KILLED_AFTER

            running.wait_for(blocked, "the blocked shelf is reached")
            killed, of = stocktake.pid, stocktake.shelves
            os.kill(killed, signal.SIGKILL)
            killed_at = time.monotonic()
            self.say(
                f"Process {killed} has counted {KILLED_AFTER} of {of} shelves: SIGKILL."
            )

            def taken_over():
                stocktake.refresh_from_db()
                return stocktake.pid != killed

            running.wait_for(taken_over, "the job is taken up again")
            seconds = time.monotonic() - killed_at
            stocktake.blocked_after = None
            stocktake.save(update_fields=["blocked_after"])

            def finished():
                job.refresh_from_db()
                return job.is_final

            running.wait_for(finished, "the job is finished")
            self.say(
                f"Process {stocktake.pid} took it up {seconds:.1f} s later and counted the "
                "rest."
            )
            running.stop()

    def run_the_rest(self):
        self.chapter("4", "Everything else is run")
        build_report.dispatch(SalesReport.objects.create().pk)
        self.say(
            f"{Job.objects.due().count()} jobs are due: bookings, receipts, and a report "
            "that fails twice."
        )
        # A drain ends when nothing is due, which the report's next attempt may not be yet.
        while Job.objects.pending().exists():
            wait_for(lambda: Job.objects.due().exists(), "the report's next attempt")
            with worker("--drain", log=self.log) as running:
                running.finish()

    def count(self, seconds):
        self.chapter("5", "What happened")
        found = figures()
        for figure in found:
            style = self.style.SUCCESS
            if figure.found != figure.expected:
                style = self.style.ERROR
            number = style(f"{figure.found:>5}")
            self.say(f"{figure.name:<11}{number}  {figure.what}")
        self.say(f"{'seconds':<11}{seconds:>5.1f}  for all of it")
        wrong = [
            f"{figure.name} is {figure.found}, not {figure.expected}"
            for figure in found
            if figure.found != figure.expected
        ]
        wrong += contradictions(STOCK_OF_EACH * len(PRODUCTS))
        if wrong:
            raise CommandError(f"This is not what was to happen: {'; '.join(wrong)}.")

    def invite(self):
        password = secrets.token_urlsafe(9)
        get_user_model().objects.create_superuser("admin", password=password)
        manage = f"{shown(sys.executable)} {shown(settings.BASE_DIR / 'manage.py')}"
        self.chapter("6", "Look at the jobs in the admin")
        self.say(f"$ {manage} runserver")
        self.say(f"http://127.0.0.1:8000/admin/ as admin, password {password}")
        self.say(f"What the workers told is in {shown(self.log)}.")

    def chapter(self, number, title):
        self.stdout.write(f"\n{self.style.MIGRATE_HEADING(f'{number}  {title}')}")

    def say(self, text):
        self.stdout.write(f"   {text}")
        self.stdout.flush()


def shown(path):
    """Return a path as short as it can be typed in the present folder."""
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("..") else relative
