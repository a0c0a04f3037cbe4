"""The command: ``python -m acp_sync.examples.host --state DIR`` serves the client that started it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from acp_core.host import Diagnostic
from acp_sync.stdio import claim

from .service import Service
from .store import Store


def report(diagnostic: Diagnostic) -> None:
    """What the client is not told goes to stderr."""
    print(f"session {diagnostic.session_id}: {diagnostic.error} {diagnostic.error.data}", file=sys.stderr)


def main() -> None:
    """Serve stdin and stdout until the input ends."""
    parser = argparse.ArgumentParser(prog="python -m acp_sync.examples.host", description=__doc__)
    parser.add_argument("--state", type=Path, required=True, help="the directory of the database")
    parser.add_argument("--delay", type=float, default=0.01, help="seconds between two pieces of an answer")
    options = parser.parse_args()
    store = Store(options.state, delay=options.delay)
    try:
        Service(store, claim(), report=report).run()
    finally:
        store.close()


if __name__ == "__main__":
    main()
