"""TODO prose."""
