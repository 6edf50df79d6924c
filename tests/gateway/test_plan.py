"""What a view is beside what its agent sent."""

from __future__ import annotations

import json
from typing import Any

from actors.gateway.apis import CHAT_API
from actors.gateway.bodies import body_of
from actors.gateway.canon import hash_of
from actors.gateway.plan import is_sent
from actors.gateway.repeated import Repeated
from actors.gateway.size import has_more_tokens


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


def test_only_words_make_a_request_too_long_for_sure() -> None:
    def body(*content: dict[str, Any]) -> Any:
        return body_of(
            json.dumps({"messages": [{"role": "user", "content": content}]}).encode(), CHAT_API, repeated=Repeated()
        )

    words = {"type": "text", "text": "one two three four five"}
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "QUFB" * 9000}}
    assert has_more_tokens(body(words, words), 9, outside=0)
    assert has_more_tokens(body(words), 9, outside=5)
    assert not has_more_tokens(body(words, picture), 5, outside=0)
    assert not has_more_tokens(body({"type": "of tomorrow", "text": "one two " * 9000}), 5, outside=0)
