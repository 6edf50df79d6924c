"""Mutation: bytes that are nearly right, drawn by hypothesis, so that what fails is made small and can be repeated."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

EDITS_MAX = 8
TELLING = (
    b"", b"\x00", b"\xff", b"\xc1", b"\xed\xa0\x80", b"\xef\xbb\xbf", b'"', b"{", b"}", b"[", b"]", b",", b":",
    b"null", b"NaN", b"-1", b"1e999", b"9" * 40, b"\\ud800", b"\\u0000", b"\n", b"\r\n", b"/", b"%", b"%00", b"..",
    b"@", b"?", b"&", b"=", b"*", b">", b"$..*", b"[" * 2000, b'{"a":' * 2000, b"(" * 500, b"\x91" * 2000, b"a" * 5000,
    b"\xde\xff\xff", b"\xdd\xff\xff\xff\xff", b"\xc6\x7f\xff\xff\xff",
)  # fmt: skip
"""What readers stumble over: signs of the formats, numbers at their ends, depth, length, halves of characters."""


@st.composite
def mutated(draw: st.DrawFn, seeds: Sequence[bytes]) -> bytes:
    """Draw one of *seeds* with some places changed, or other bytes altogether."""
    data = bytearray(
        draw(st.one_of(st.sampled_from(seeds), st.sampled_from(seeds), st.sampled_from(seeds), st.binary()))
    )
    for _ in range(draw(st.integers(0, EDITS_MAX))):
        at = draw(st.integers(0, len(data)))
        length = draw(st.sampled_from((0, 1, 1, 2, 4, 16, 64)))
        kind = draw(st.sampled_from(("flip", "put", "put", "cut", "copy", "bytes", "end")))
        if kind == "flip" and at < len(data):
            data[at] ^= 1 << draw(st.integers(0, 7))
        elif kind == "put":
            data[at : at + length] = draw(st.sampled_from(TELLING))
        elif kind == "cut":
            del data[at : at + length]
        elif kind == "copy":
            other = draw(st.sampled_from(seeds))
            start = draw(st.integers(0, len(other)))
            data[at : at + length] = other[start : start + draw(st.integers(0, 64))]
        elif kind == "bytes":
            data[at : at + length] = draw(st.binary(max_size=8))
        elif kind == "end":
            del data[at:]
    return bytes(data)
