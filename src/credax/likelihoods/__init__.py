"""Likelihoods and training objectives, one file per kind; `credax.likelihood` has all names."""
