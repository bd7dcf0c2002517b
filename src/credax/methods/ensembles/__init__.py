"""Independent networks: one, or several mixed."""
