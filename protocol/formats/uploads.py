"""Uploads: put the bytes of an image into a view that names it."""

from __future__ import annotations

from ..jsonbytes import encode_value
from .neutral import media_of


def filled(body: bytes, name: str, text: str) -> bytes:
    """Return *body* with what *name* stands for: a whole string, the data of a `data:` URL, or Anthropic's source."""
    media = media_of("image", text)
    if media.data:
        source = {"type": "base64", "media_type": media.mime, "data": media.data}
        body = body.replace(encode_value({"type": "url", "url": name}), encode_value(source))
        body = body.replace(b'"data":' + encode_value(name), b'"data":' + encode_value(media.data))
    whole = encode_value(text)
    return body.replace(encode_value(name), whole).replace(f";base64,{name}".encode(), b";base64," + whole[1:-1])
