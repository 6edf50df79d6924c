"""Strands' messages, all kinds of their blocks, through the log and back."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from protocol.strands import from_view, to_atoms
from tests.programs.adapters.round_trip import main

TEXT = st.text(max_size=20)
NAME = st.text("abcdef", min_size=1, max_size=8)
JSON = st.recursive(st.none() | st.booleans() | st.integers(-1000, 1000) | TEXT, lambda one: st.lists(one, max_size=2))
OBJECT = st.dictionaries(NAME, JSON, max_size=3)
BYTES = st.binary(max_size=9)


def block(kind: str, **fields: Any) -> Any:
    """Return blocks of one *kind*."""
    return st.fixed_dictionaries({kind: st.fixed_dictionaries(fields)})


WORDS = st.fixed_dictionaries({"text": TEXT})
SOURCE = st.fixed_dictionaries({"bytes": BYTES}) | st.just({"location": {"type": "s3", "uri": "s3://a/b"}})
IMAGE = block("image", format=st.sampled_from(("png", "jpeg")), source=SOURCE)
DOCUMENT = block("document", format=st.just("pdf"), name=NAME, source=SOURCE)
SHOWN = st.one_of(
    IMAGE,
    DOCUMENT,
    block("audio", format=st.just("mp3"), source=SOURCE),
    block("video", format=st.just("mp4"), source=SOURCE),
    block("guardContent", text=st.fixed_dictionaries({"text": TEXT, "qualifiers": st.just(["query"])})),
    block("cachePoint", type=st.just("default")),
)
RESULT = block(
    "toolResult",
    toolUseId=NAME,
    status=st.sampled_from(("success", "error")),
    content=st.lists(WORDS | st.fixed_dictionaries({"json": JSON | OBJECT}) | IMAGE | DOCUMENT, max_size=3),
)
SAID = st.one_of(
    WORDS,
    block("toolUse", toolUseId=NAME, name=NAME, input=OBJECT),
    block("reasoningContent", reasoningText=st.fixed_dictionaries({"text": TEXT, "signature": NAME})),
    block("reasoningContent", redactedContent=BYTES),
    block(
        "citationsContent",
        content=st.lists(WORDS, max_size=2),
        citations=st.lists(st.fixed_dictionaries({"title": TEXT}), max_size=1),
    ),
)
META = {"tracking_id": NAME, "metadata": st.fixed_dictionaries({"custom": OBJECT})}
MESSAGE = st.one_of(
    st.fixed_dictionaries(
        {"role": st.just("user"), "content": st.lists(WORDS | SHOWN | RESULT, max_size=4)}, optional=META
    ),
    st.fixed_dictionaries({"role": st.just("assistant"), "content": st.lists(SAID, max_size=4)}, optional=META),
)


if __name__ == "__main__":
    main(MESSAGE, to_atoms, from_view)
