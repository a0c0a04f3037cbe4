"""Settings for every test."""

from __future__ import annotations

import signal

from hypothesis import HealthCheck, settings

# A busy machine is slow, not wrong: no example has a time limit, and drawing may take its time.
settings.register_profile("tests", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.load_profile("tests")

# A shell starts its background jobs with Ctrl-C ignored, and their children inherit that: the tests that interrupt
# would wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
