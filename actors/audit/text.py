"""Text: what a model reads of a message in the view, and of the digest."""

from __future__ import annotations

from actors.core.entry import Entry, shown_message
from actors.core.extract import messages_text
from actors.core.state import State
from actors.core.written_words import ABORTED, RUNNING
from protocol.errors import BadMessage
from protocol.formats import messages


def text_of(entry: Entry) -> str:
    """Return the texts of *entry* as it is shown, one below the other, with what was put behind it."""
    notes = [note.text for note in entry.notes]
    answer = RUNNING if entry.awaited else ABORTED
    return "\n".join((messages_text(shown_message(entry)), *(answer for _ in entry.answers), *notes))


def said_text(raw: bytes) -> str:
    """Return the texts of a message as it was said; all of it, where it is no message."""
    try:
        return messages_text(messages.decode(raw))
    except BadMessage:
        return raw.decode("utf-8", "replace")


def digest_text(state: State) -> str:
    """Return the text of the digest, empty if there is none."""
    if state.digest is None:
        return ""
    return state.digest.text
