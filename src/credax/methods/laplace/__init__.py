"""The Laplace approximation: structures, subsets, links, evidence."""
