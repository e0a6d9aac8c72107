"""How fast jobs are dispatched, drained and picked up, beside what the database allows."""
