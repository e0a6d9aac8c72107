from django.contrib import admin
from shop.models import Order, Product, SalesReport, Stocktake


@admin.register(Product)
class ProductAdmin(admin.ModelAdmin):
    list_display = ["name", "price", "stock"]


@admin.register(Order)
class OrderAdmin(admin.ModelAdmin):
    list_display = ["__str__", "email", "product", "quantity", "bookings", "receipts"]
    list_select_related = ["product"]


@admin.register(SalesReport)
class SalesReportAdmin(admin.ModelAdmin):
    list_display = ["__str__", "tries", "text"]


@admin.register(Stocktake)
class StocktakeAdmin(admin.ModelAdmin):
    list_display = ["__str__", "counted", "shelves", "tries"]
