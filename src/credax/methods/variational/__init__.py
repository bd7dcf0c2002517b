"""Gaussians over the weights, fitted by a bound on the evidence."""
