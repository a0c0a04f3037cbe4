"""Two linked cores under hypothesis: both roles, any chunking, delays, cancels, deadlines and ends."""

from __future__ import annotations

import argparse

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.core.linked import LinkedCores


def run(examples: int, steps: int, derandomize: bool) -> None:
    """Run the machine so many times, with up to so many steps each."""
    # Shrinking hundreds of calls takes minutes; a seed and the printed steps are enough to reproduce a failure.
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        LinkedCores,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            derandomize=derandomize,
            database=None,
            phases=[Phase.generate],
            report_multiple_bugs=False,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--examples", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=60)
    options = parser.parse_args()
    run(options.examples, options.steps, False)
    for name, count in sorted(LinkedCores.seen.items()):
        print(f"{count:8} {name}")


if __name__ == "__main__":
    main()
