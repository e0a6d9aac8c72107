"""The systems, one module each. Imported without Django and without the system itself."""
