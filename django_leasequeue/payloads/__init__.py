"""What a job's row holds of Python: values as JSON text, errors as bounded text."""

from django_leasequeue.payloads.errors import describe_error
from django_leasequeue.payloads.texts import clean_text
from django_leasequeue.payloads.values import dump, load, try_dump_result

__all__ = ["clean_text", "describe_error", "dump", "load", "try_dump_result"]
