"""What the shop sells, and the work that is done about it."""

from django.db import models


class Product(models.Model):
    name = models.CharField(max_length=100)
    price = models.DecimalField(max_digits=8, decimal_places=2)
    stock = models.IntegerField()

    class Meta:
        ordering = ["name"]

    def __str__(self):
        return self.name


class Order(models.Model):
    email = models.EmailField()
    product = models.ForeignKey(Product, models.PROTECT)
    quantity = models.PositiveIntegerField()
    # How often the stock was booked, and a receipt sent. Once each, if all is well.
    bookings = models.PositiveIntegerField(default=0)
    receipts = models.PositiveIntegerField(default=0)

    class Meta:
        ordering = ["-pk"]

    def __str__(self):
        return f"Order {self.pk}"


class SalesReport(models.Model):
    # Runs that began, those that failed included.
    tries = models.PositiveIntegerField(default=0)
    text = models.TextField(blank=True)

    def __str__(self):
        return f"Sales report {self.pk}"


class Stocktake(models.Model):
    """Shelf after shelf is counted; the row always says how far it has come."""

    shelves = models.PositiveIntegerField(default=12)
    counted = models.PositiveIntegerField(default=0)
    # Counting waits here once so many are counted; null for no wait.
    blocked_after = models.PositiveIntegerField(null=True, blank=True)
    # Runs that began, and the process of the latest.
    tries = models.PositiveIntegerField(default=0)
    pid = models.PositiveIntegerField(null=True, blank=True)

    def __str__(self):
        return f"Stocktake {self.pk}"
