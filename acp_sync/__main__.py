"""``python -m acp_sync``: see ``acp_sync.cli``."""

import sys

from .cli import main

if __name__ == "__main__":
    sys.exit(main())
