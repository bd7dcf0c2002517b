"""The command line. Arguments are read before jax is imported."""

from credax.cli.main import main as main
