"""Many processes tick one schedule, and some are killed."""
