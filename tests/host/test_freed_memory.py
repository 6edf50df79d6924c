"""What a gateway frees it has at hand for its next request."""

import platform
import subprocess
import sys

import pytest

REQUESTS = """
import resource, sys
from actors.host.freed_memory import keep_freed_memory
assert sys.argv[1] == "as ever" or keep_freed_memory()
def request():
    blocks = [b"x" * 8_000_000 for _ in range(3)]
for _ in range(3):
    request()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    request()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def _faults(how: str) -> int:
    """Return how many pages ten requests asked the system for."""
    ran = subprocess.run([sys.executable, "-c", REQUESTS, how], check=True, capture_output=True, env={})
    return int(ran.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library has no such setting")
def test_requests_in_a_row_use_the_same_pages() -> None:
    assert _faults("kept") < _faults("as ever") / 10
