"""`path("queue/", include("django_leasequeue.urls"))`: for whoever may see jobs."""

from django.urls import path

from django_leasequeue.views import HealthView, MetricsView

app_name = "leasequeue"
urlpatterns = [
    path("health/", HealthView.as_view(), name="health"),
    path("metrics/", MetricsView.as_view(), name="metrics"),
]
