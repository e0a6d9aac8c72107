"""What customers and the payment provider ask of the shop."""

from django.db import transaction
from shop.models import Order
from shop.tasks import book_stock, send_receipt


class CardDeclined(Exception):
    """The card pays for nothing, so there is no order."""


def place_order(email, product, quantity, *, card):
    """Store an order together with its jobs. Raise CardDeclined; then neither is stored."""
    with transaction.atomic():
        order = Order.objects.create(email=email, product=product, quantity=quantity)
        book_stock.dispatch(order.pk)
        send_receipt.dispatch(order.pk)
        if card == "expired":
            raise CardDeclined(f"{order} can't be paid with this card.")
    return order


def payment_reported(order):
    """Take note of a payment, which the provider may report any number of times."""
    return send_receipt.dispatch(order.pk)
