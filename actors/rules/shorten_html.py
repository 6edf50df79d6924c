"""HTML: the text that a reader would see.

RE2 and `html.unescape` instead of `html.parser`, which needs quadratic time for some hostile pages.
"""

from __future__ import annotations

import html

import re2

from .entry import Count
from .shorten_lines import shorten_lines, telling_lines

_HIDDEN = re2.compile(
    r"(?is)<script\b.*?</script\s*>|<style\b.*?</style\s*>|<noscript\b.*?</noscript\s*>|<svg\b.*?</svg\s*>"
    r"|<template\b.*?</template\s*>|<!--.*?-->|<head\b[^>]*>|</head\s*>"
)
_BREAK = re2.compile(
    r"(?i)</?(?:p|div|br|li|ul|ol|tr|table|h[1-6]|section|article|header|footer|pre|title|option)\b[^>]*>"
)
_LINK = re2.compile(r"(?i)<a\b[^>]*?\bhref\s*=\s*[\"']?(https?://[^\"'\s>]+)[^>]*>")
_TAG = re2.compile(r"(?s)<[a-zA-Z/!?][^>]*>")
_SPACE = re2.compile(r"[ \t\r\f\x{a0}]+")


def shorten_html(text: str, *, tokens_max: int, count: Count) -> str:
    """Return the readable text of a page, its links beside their words, within *tokens_max* tokens."""
    lines = readable(text).split("\n")
    return shorten_lines("\n".join(lines), tokens_max=tokens_max, count=count, telling=telling_lines(lines))


def readable(text: str) -> str:
    """Return *text* without tags, scripts and styles, one block a line."""
    bare = _LINK.sub(r" (\1) ", _BREAK.sub("\n", _HIDDEN.sub(" ", text)))
    bare = html.unescape(_TAG.sub("", bare))
    lines = (str(_SPACE.sub(" ", line)).strip() for line in bare.split("\n"))
    return "\n".join(line for line in lines if line)
