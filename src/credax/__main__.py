"""``python -m credax``."""

import sys

from credax.cli import main

if __name__ == "__main__":
    sys.exit(main())
