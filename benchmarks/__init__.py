"""What the core costs, as ratios to json in one process and one run. ``python -m benchmarks`` prints the table."""
