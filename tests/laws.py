"""How laws are tried. Where only our rules are wanted, as beside the peers, there is no Hypothesis."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# a test that others hold up for 200 ms is not wrong
settings.register_profile("repeated", derandomize="JETTISON_LAW_EXAMPLES" not in os.environ, deadline=None)
settings.load_profile("repeated")

LAWS = settings(
    max_examples=int(os.environ.get("JETTISON_LAW_EXAMPLES", "50")),
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
"""How a law is tried: on the same examples in each run, so that a change is judged by what it changed.

With `JETTISON_LAW_EXAMPLES` (`make laws`: 2,000) as often as it says, on new examples each time. A failure prints the
blob that repeats it.
"""
