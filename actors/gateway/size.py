"""Size: whether no provider can take a request as it came; asked only where there is nothing else to send."""

from __future__ import annotations

from itertools import chain

from actors.model_info.tokens import counter, tokenizer_for
from protocol.errors import BadMessage
from protocol.formats.messages import MEDIA, parse
from protocol.jsonbytes import decode

from .bodies import Body


def has_more_tokens(body: Body, window: int, *, outside: int) -> bool:
    """Tell whether the words of *body* alone, and *outside* tokens beside them, are more than *window* tokens.

    They are counted as far as it needs: a request may have megabytes. What cannot be read is not more than anything.
    """
    if sum(map(len, body.messages)) + outside <= window:
        # no token is less than a byte
        return False
    count, left = counter(tokenizer_for(body.model).encoding), window - outside
    try:
        parts = chain.from_iterable(parse(decode(raw)).parts for raw in body.messages)
        return any((left := left - count(part.text)) < 0 for part in parts if part.kind not in MEDIA)
    except BadMessage:
        return False
