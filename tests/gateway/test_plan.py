"""What a view is beside what its agent sent."""

from __future__ import annotations

import json
from typing import Any

from actors.gateway.canon import hash_of
from actors.gateway.plan import is_sent


def test_a_view_without_the_thoughts_that_were_sent_is_not_what_was_sent() -> None:
    thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
    words = {"type": "text", "text": "I look."}
    sent: list[dict[str, Any]] = [
        {"role": "user", "content": "Look."},
        {"role": "assistant", "content": [thought, words]},
    ]
    raw = [json.dumps(one).encode() for one in sent]
    hashes = [hash_of(one) for one in sent]
    assert is_sent(raw, raw, hashes)
    assert not is_sent([raw[0], json.dumps({**sent[1], "content": [words]}).encode()], raw, hashes)
    other = {**sent[1], "content": [{**thought, "signature": "t"}, words]}
    assert not is_sent([raw[0], json.dumps(other).encode()], raw, hashes)
