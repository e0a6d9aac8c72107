"""The queues that a Django project would choose from, side by side on one database server.

Adapted from a neutral benchmark: each system does the same no-op job by its own worker.
"""
