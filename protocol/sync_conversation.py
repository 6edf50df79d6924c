"""A conversation without an event loop: each call waits for its answer. See `conversation.Conversation`.

Written by `.venv/bin/python -m tests.sync_twin` from that one, compared by a test.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from .arguments import Dumped
from .context import Context
from .conversation import Conversation as Asynchronous
from .history import (
    ARTIFACTS_MAX,
    HITS,
    TEXT_CHARS,
    VERSIONS_MAX,
    Certificate,
    Diff,
    Found,
    KeptPart,
    Version,
    Where,
    Why,
)
from .ids import Address
from .loop_thread import LoopThread
from .service_messages import Expanded, PolicyChanged, Ready, Rewound


class Conversation:
    """One agent's history. Its calls are in order: a later one waits for an earlier one."""

    def __init__(self, talk: Asynchronous, loop: LoopThread) -> None:
        self._talk = talk
        self._loop = loop

    @property
    def at(self) -> Address:
        """Return its address."""
        return self._talk.at

    @property
    def upto(self) -> int:
        """Return the number of messages that it began with, where it is a fork."""
        return self._talk.upto

    def append(
        self, new: Iterable[Mapping[str, Any] | Dumped], *, key: str = "", at_ms: int = 0, patience: float | None = None
    ) -> int:
        """Append messages in order; returned means durable. Returns the stream sequence of the last.

        A message is a dict as its provider's API has it, or an SDK's object (with `model_dump()`). Raises `BadMessage`
        or `Erased` before anything is sent. It tries for *patience* seconds (by default as long as the client: 30, in
        which NATS and the workers may restart), then raises `OutcomeUnknown` when the server did not confirm; the same
        call again is then harmless. With a *key* it is so even from another process: what was appended under one is
        stored once (of a conversation's last 256 keys and writers), what comes under it later is taken for a repeat.
        Cooldowns in seconds go by *at_ms*, milliseconds since 1970; 0: now.
        """
        return self._loop.run(self._talk.append(new, key=key, at_ms=at_ms, patience=patience))

    def set_policy(self, policy: Mapping[str, Any], *, by: str = "") -> PolicyChanged:
        """Change values of the conversation's policy from the next version on; what is not named stays.

        Raises `BadPolicy` for what cannot be used or is locked, `NotReady` where nobody serves or one may not ask.
        """
        return self._loop.run(self._talk.set_policy(policy, by=by))

    def set_budget(self, budget: int) -> None:
        """Make *budget* the standing one: that of every view from now on, and what is compacted to; 0: the policy's."""
        self._loop.run(self._talk.set_budget(budget))

    def context(
        self,
        *,
        budget: int = 0,
        model: str = "",
        patience: float | None = None,
        unfinished: bool = False,
        soon: bool = False,
        after: Context | None = None,
    ) -> Context:
        """Return the view for the next call, at most *budget* tokens (0: the standing budget, else the policy's).

        A budget below the standing one is for this call alone: a view is cut for it, which says what was left out. The
        same one in two calls in a row becomes the standing one. With a *model* it also fits that model's window. Waits
        for storage and rules, never for an LLM: *patience* seconds, by default as long as the client. Within
        an *unfinished* batch of calls it is for looking at alone. *soon*: while a compaction is under way, what stood
        before it is enough, if that fits. *after*: an earlier view, where nobody else spoke since: what both begin with
        is not sent again. Raises `CallsOpen` within a batch, `NotReady` when no worker answers in time, `BudgetRefused`
        with the smallest budget that works, `Erased`, `LogRegression` where the log lost what was appended: then open
        it again.
        """
        return self._loop.run(
            self._talk.context(
                budget=budget, model=model, patience=patience, unfinished=unfinished, soon=soon, after=after
            )
        )

    def read_artifact(
        self, key: str, *, lines: str = "", bytes: str = "", pattern: str = "", context: int = 2, json_path: str = ""
    ) -> str:
        """Return a part of what a pointer names; bounded, says what is left. Many messages: an outline, a line each.

        Its lines or bytes `20-80` (from 1), the lines that match *pattern* with *context* lines around each,
        or what *json_path* finds. Raises `NotFound`, `Rejected`.
        """
        return self._loop.run(
            self._talk.read_artifact(
                key, lines=lines, bytes=bytes, pattern=pattern, context=context, json_path=json_path
            )
        )

    def expand(self, *, messages: str = "", artifact: str = "") -> Expanded:
        """Put back into the view what has left it, until the next compaction: messages `4-9`, or a spilled artifact.

        A call comes with its results, so that `#4` is the account's step. Raises `BudgetRefused` with the tokens it
        would take, `NotFound`, `Rejected`.
        """
        return self._loop.run(self._talk.expand(messages=messages, artifact=artifact))

    def rewind(self, *, version: int = 0, upto: int = 0) -> Rewound:
        """Make the context that of an earlier *version* again, or of the newest one within the first *upto* messages.

        The log keeps what was said since, and numbers go on counting: the next message is none of theirs. An operator
        must have allowed it. Raises `NotFound`, `Rejected`, `Erased`, `NotPermitted`.
        """
        return self._loop.run(self._talk.rewind(version=version, upto=upto))

    def fork(
        self, conversation: str, *, version: int = 0, upto: int = 0, patience: float | None = None
    ) -> Conversation:
        """Begin *conversation* with the history of this one at a *version*, or at the newest within *upto* messages.

        Without either, at the newest version. A version is made by each `context()`, not by each message: `upto` of the
        handle that is returned says how many messages are in it. The same fork again is no other one. An operator must
        have allowed it. Raises `NotFound`, `BadId`, `Rejected` where another history stands, `Erased`, `NotPermitted`.
        """
        return Conversation(
            self._loop.run(self._talk.fork(conversation, version=version, upto=upto, patience=patience)), self._loop
        )

    def search(self, query: str, *, regex: bool = False, before: int = 0, most: int = HITS, context: int = 1) -> Found:
        """Return the newest messages that hold all words of *query*, of all that was said, whatever the view shows.

        `"a phrase"` is one word; with *regex* the query is an RE2 expression for a line. Lines come with *context*
        around each, of *most* messages (50 at most), those before number *before*. Raises `NotFound`, `Rejected`.
        """
        return self._loop.run(self._talk.search(query, regex=regex, before=before, most=most, context=context))

    def artifacts(self, *, before: int = 0, most: int = ARTIFACTS_MAX) -> list[KeptPart]:
        """Return the newest *most* artifacts (500), of messages before number *before* (0: all). Raises `NotFound`."""
        return self._loop.run(self._talk.artifacts(before=before, most=most))

    def versions(
        self,
        *,
        after: int = 0,
        before: int = 0,
        most: int = VERSIONS_MAX,
        newest: bool = False,
        changes: bool = False,
        losses: bool = False,
    ) -> list[Version]:
        """Return a row for each version behind *after*, the oldest first: who made it, why, and what it cost.

        At most *most* of them (1,000), the oldest, or the *newest* ones; of those before the one numbered *before*, if
        any; of *changes* alone, not of each served view. With *losses* what each step lost is counted and named.
        Raises `NotFound`.
        """
        return self._loop.run(
            self._talk.versions(after=after, before=before, most=most, newest=newest, changes=changes, losses=losses)
        )

    def diff(self, older: int, newer: int, *, chars: int = TEXT_CHARS) -> Diff:
        """Return the differences between two versions, message by message; of each text *chars* characters.

        Raises `NotFound` where there is no such version.
        """
        return self._loop.run(self._talk.diff(older, newer, chars=chars))

    def why(self, message: int, *, version: int = 0, chars: int = TEXT_CHARS) -> Why:
        """Return the events of *message* (by its number from 1; 0: the digest), by which rule, and how to read it.

        Up to a *version*, or to now. Raises `NotFound`.
        """
        return self._loop.run(self._talk.why(message, version=version, chars=chars))

    def where(self, text: str) -> Where:
        """Return in which versions *text* stands in the view, and where else it is kept.

        Raises `NotFound` for no conversation, `Rejected` for an empty text.
        """
        return self._loop.run(self._talk.where(text))

    def erase(self, *, yes: bool = False, by: str = "") -> Certificate:
        """Erase the conversation for good: its records, artifacts and key. Say `yes=True`: nothing brings it back.

        An operator must have allowed it. Once more, it removes what came since. Raises `NotFound`, `NotPermitted`.
        """
        return self._loop.run(self._talk.erase(yes=yes, by=by))

    def answer_read(self, arguments: str | Mapping[str, Any]) -> str:
        """Return the result of a model's call of `tools.READ_TOOL` (JSON text, or a dict); errors are words to it."""
        return self._loop.run(self._talk.answer_read(arguments))

    def answer_read_content(self, arguments: str | Mapping[str, Any]) -> str | list[dict[str, Any]]:
        """Return the same, or for an image the content of a result that shows it, in the form of OpenAI chat."""
        return self._loop.run(self._talk.answer_read_content(arguments))

    def report_usage(
        self, *, input_tokens: int, output_tokens: int = 0, cached_tokens: int = 0, view_hash: str = ""
    ) -> None:
        """Report the tokens that the provider counted for a served view."""
        self._loop.run(
            self._talk.report_usage(
                input_tokens=input_tokens, output_tokens=output_tokens, cached_tokens=cached_tokens, view_hash=view_hash
            )
        )

    def report_overflow(
        self, *, view_hash: str = "", requested_tokens: int = 0, limit_tokens: int = 0, message: str = ""
    ) -> None:
        """Tell that the provider refused a served view as too long; the next `context()` is a shorter one.

        Give its error's text, or the numbers themselves; where neither names any, more than we count is assumed.
        """
        self._loop.run(
            self._talk.report_overflow(
                view_hash=view_hash, requested_tokens=requested_tokens, limit_tokens=limit_tokens, message=message
            )
        )

    def ready(self) -> Iterator[Ready]:
        """Yield each announcement that the view is ready, from now on."""
        return self._loop.each(self._talk.ready())
