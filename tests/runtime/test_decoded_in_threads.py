"""What no thread has decoded before is decoded by several at once: msgspec looks a type over at its first use.

Two at once read what is half looked over.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.stack import ROOT

RACE = """
import sys, threading
import msgspec
from actors.core.state import initial
from actors.runtime import kept_states
from protocol import policy

state = kept_states.Snapshot(schema=kept_states.STATE_SCHEMA, state=msgspec.msgpack.encode(initial(bytes(32))))
bodies = {"state": msgspec.msgpack.encode(state), "policy": policy.encode(policy.Policy())}
read = {"state": kept_states.opened, "policy": policy.decode}[sys.argv[1]]
body, gate, wrong = bodies[sys.argv[1]], threading.Barrier(8), []
sys.setswitchinterval(1e-6)

def work():
    gate.wait()
    try:
        read(body)
    except BaseException as error:
        wrong.append(repr(error))

threads = [threading.Thread(target=work) for _ in range(8)]
[one.start() for one in threads]
[one.join() for one in threads]
print(wrong)
"""


@pytest.mark.parametrize("what", ["state", "policy"])
def test_what_threads_decode_first_is_whole(what: str) -> None:
    for _ in range(4):
        done = subprocess.run([sys.executable, "-c", RACE, what], cwd=ROOT, capture_output=True, text=True, timeout=180)
        assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr
