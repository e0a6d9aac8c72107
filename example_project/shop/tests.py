"""The shop's own tests: jobs are run inside them, without a worker.

$ python example_project/manage.py test shop
"""

from datetime import timedelta
from decimal import Decimal

from django.test import TestCase
from shop.models import Order, Product, SalesReport, Stocktake
from shop.orders import CardDeclined, payment_reported, place_order
from shop.tasks import book_stock, build_report, send_receipt, take_stock

from django_leasequeue.testing import (
    assert_dispatched,
    assert_idempotent,
    capture_jobs,
    run_jobs,
    simulate_crash,
    simulate_lost_lease,
)


class ShopTests(TestCase):
    def setUp(self):
        self.tea = Product.objects.create(name="Tea", price=Decimal("4.50"), stock=10)

    def order(self, card="valid"):
        return place_order("ann@example.com", self.tea, 2, card=card)

    def test_an_order_is_booked_and_gets_its_receipt(self):
        with capture_jobs() as jobs:
            order = self.order()
        assert_dispatched(book_stock, [order.pk], jobs=jobs, times=1)
        assert_dispatched(send_receipt, [order.pk], jobs=jobs, queue="mail")
        run_jobs()
        order.refresh_from_db()
        self.tea.refresh_from_db()
        self.assertEqual((order.bookings, order.receipts), (1, 1))
        self.assertEqual(self.tea.stock, 8)

    def test_an_order_that_is_not_paid_leaves_nothing(self):
        with capture_jobs() as jobs, self.assertRaises(CardDeclined):
            self.order(card="expired")
        self.assertEqual(jobs, [])
        self.assertFalse(Order.objects.exists())

    def test_a_payment_that_is_reported_twice_sends_one_receipt(self):
        order = self.order()
        run_jobs()
        self.assertEqual(payment_reported(order).outcome, "skipped")
        self.assertEqual(run_jobs(), [])

    def test_the_rates_come_at_the_third_attempt(self):
        self.order()
        report = SalesReport.objects.create()
        job = build_report.dispatch(report.pk).job
        run_jobs(through=timedelta(seconds=1))
        job.refresh_from_db()
        self.assertEqual((job.attempts, job.result), (3, "1 orders, 9.00 in all"))

    def test_stock_is_booked_once_though_the_worker_dies(self):
        order = self.order()
        assert_idempotent(book_stock, [order.pk])
        order.refresh_from_db()
        self.assertEqual(order.bookings, 1)

    def test_a_stocktake_goes_on_where_it_was_after_a_crash(self):
        stocktake = Stocktake.objects.create(shelves=3)
        take_stock.dispatch(stocktake.pk)
        with simulate_crash():
            run_jobs()
        stocktake.refresh_from_db()
        self.assertEqual((stocktake.counted, stocktake.tries), (3, 2))

    def test_a_stocktake_stops_without_its_lease(self):
        stocktake = Stocktake.objects.create(shelves=3)
        take_stock.dispatch(stocktake.pk)
        with simulate_lost_lease():
            lost, second = run_jobs()
        self.assertEqual((lost.word, second.word), ("lost", "succeeded"))
        self.assertEqual(second.job.result, 3)
