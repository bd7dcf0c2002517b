"""Chains on the posterior: stochastic gradients, or all rows."""
