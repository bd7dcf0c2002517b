"""Models of experiments by name."""
