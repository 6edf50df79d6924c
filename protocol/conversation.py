"""A conversation as its agent holds it: append what was said, get the view for the next call."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, TypeVar

import msgspec

from . import subjects
from .arguments import Dumped, check_counts, check_numbers, check_texts, checked_layer, listed, seconds_of
from .context import Context, Written, context_of, has_all, written_of
from .errors import NotPermitted, Rejected, Unavailable
from .facts import CompactionRequested, OverflowReported, SaidFact, UsageReported
from .foreseen import Foreseen
from .formats import messages
from .formats.cache_marks import Marks
from .history import (
    ARTIFACTS_MAX,
    HITS,
    TEXT_CHARS,
    VERSIONS_MAX,
    ArtifactsAsked,
    Certificate,
    Diff,
    DiffAsked,
    EraseAsked,
    Found,
    KeptPart,
    SearchAsked,
    Version,
    VersionsAsked,
    Where,
    WhereAsked,
    Why,
    WhyAsked,
)
from .ids import Address, token, written_address
from .overflow import counts_in
from .prepared import Batches, Uploads, all_prepared
from .service_call import Question
from .service_messages import (
    ContextAsked,
    ContextMeta,
    ExpandAsked,
    Expanded,
    ForkAsked,
    Forked,
    OpenAsked,
    Opening,
    PolicyAsked,
    PolicyChanged,
    ReadAsked,
    Ready,
    RewindAsked,
    Rewound,
)
from .tools import image_content, read_asked
from .voice import Connected, Voice
from .warned import standing, warn

T = TypeVar("T")

log = logging.getLogger("jettison.client")

FORK_SECONDS = 60.0
"""For a fork and an erasing: they are written record by record."""


@dataclass(kw_only=True)
class Conversation:
    """One agent's history. Its calls are in order: a later one waits for an earlier one."""

    client: Connected
    at: Address
    upto: int = 0
    """Messages that it began with, where it is a fork."""
    _asked: int = 0
    _standing: int = 0
    """As far as this handle knows."""
    _unchecked: OpenAsked | None = None
    """What no service has looked at yet."""
    _voice: Voice = field(init=False)
    _uploads: Uploads = field(init=False)
    _format: str = ""
    _marks: Marks = field(default_factory=Marks)
    """Where this agent wants its provider to keep what it read."""

    def __post_init__(self) -> None:
        self._voice = Voice(client=self.client, at=self.at)
        self._uploads = Uploads(self.client.connection, self.at)

    async def append(
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
        seconds = seconds_of(self.client.patience_seconds, patience=patience)
        check_texts(key=key)
        check_numbers(at_ms=at_ms)
        batches = await all_prepared(new := listed(new), self._uploads, declared=self._format, seconds=seconds)
        self._marks = reduce(Marks.after, new, self._marks)
        if key:
            await self._voice.say_under(key, batches, at_ms=at_ms, patience=seconds)
        else:
            await self._voice.say_batches(batches, at_ms=at_ms, patience=seconds)
        return self._voice.seq

    async def append_ready(self, batches: Batches, *, key: str) -> None:
        """Append what is `ready` as `append` does."""
        await self._voice.say_under(key, batches, at_ms=0, patience=self.client.patience_seconds)

    def look_early(self) -> None:
        """Begin what `append` waits for before it speaks, where it is sure to come: an erased conversation is told."""
        self._voice.look_early()

    def ask_beside(self, asked: ContextAsked, after: Written) -> Foreseen | None:
        """Ask what `written` does together with the next append under a key; None where other things come first."""
        is_checked = self._unchecked in (None, OpenAsked())
        if not is_checked or self._voice.doubted or asked.budget not in (0, self._standing):
            return None
        self._asked = asked.budget
        return self._voice.ask_beside(asked, after)

    async def check(self, wait_seconds: float) -> None:
        """Have the service look at what the conversation is opened with. Raises `BadPolicy`, `PolicyDiffers`."""
        if self._unchecked is None or self._unchecked == OpenAsked():
            return
        try:
            warn((await self._ask("open", self._unchecked, Opening, wait_seconds)).notes)
        except NotPermitted as error:
            # an older configuration of NATS: what is refused stands in the log alone
            warn((f"nobody can look at the policies that this user opens conversations with: {error}",))
        except Unavailable as error:
            log.info("nobody looked at the policy of %s yet: %s", self.at, error)
            return
        self._unchecked = None

    async def set_policy(self, policy: Mapping[str, Any], *, by: str = "") -> PolicyChanged:
        """Change values of the conversation's policy from the next version on; what is not named stays.

        Raises `BadPolicy` for what cannot be used or is locked, `NotReady` where nobody serves or one may not ask.
        """
        check_texts(by=by)
        by = messages.without_surrogates(by)
        changed = await self._ask("policy", PolicyAsked(policy=checked_layer(policy), by=by), PolicyChanged)
        warn(changed.notes)
        return changed

    async def set_budget(self, budget: int) -> None:
        """Make *budget* the standing one: that of every view from now on, and what is compacted to; 0: the policy's."""
        await self.say((CompactionRequested(budget=standing(budget), reason="set"),))
        self._standing = budget

    async def context(
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
        seconds = seconds_of(self.client.patience_seconds, patience=patience)
        asked = ContextAsked(
            budget=budget, model=model, wait_seconds=seconds, unfinished=unfinished, soon=soon, have=has_all(after)
        )
        return context_of(*await self._served(asked), self._marks, after)

    async def written(self, asked: ContextAsked, *, after: Written | None = None) -> Written:
        """Return the view of `context`, for who passes the messages on as they are: none is read."""
        asked = msgspec.structs.replace(asked, have=has_all(after))
        return written_of(*await self._served(asked), after)

    async def _served(self, asked: ContextAsked) -> tuple[ContextMeta, bytes]:
        """Return the answer about the view that is asked for, and the bytes of it that are new."""
        check_counts(budget=asked.budget)
        await self.check(0.0)
        if asked.budget == self._asked:
            await self._stand(asked.budget)
        answer, body = await self._voice.ask("context", asked, asked.wait_seconds)
        assert answer.context is not None
        self._asked, self._unchecked = asked.budget, None
        if answer.context.repeated:
            await self._stand(asked.budget)
        return answer.context, body

    async def _stand(self, budget: int) -> None:
        """Make what is asked for again and again the standing budget."""
        if budget in (0, self._standing):
            return
        # a log without room is no reason to refuse a view: the service may have one that was served before
        with suppress(Unavailable):
            await self.set_budget(budget)

    async def read_artifact(
        self, key: str, *, lines: str = "", bytes: str = "", pattern: str = "", context: int = 2, json_path: str = ""
    ) -> str:
        """Return a part of what a pointer names; bounded, says what is left. Many messages: an outline, a line each.

        Its lines or bytes `20-80` (from 1), the lines that match *pattern* with *context* lines around each,
        or what *json_path* finds. Raises `NotFound`, `Rejected`.
        """
        return await self._read(
            ReadAsked(key=key, lines=lines, bytes=bytes, pattern=pattern, context=context, json_path=json_path)
        )

    async def expand(self, *, messages: str = "", artifact: str = "") -> Expanded:
        """Put back into the view what has left it, until the next compaction: messages `4-9`, or a spilled artifact.

        A call comes with its results, so that `#4` is the account's step. Raises `BudgetRefused` with the tokens it
        would take, `NotFound`, `Rejected`.
        """
        return await self._ask("expand", ExpandAsked(messages=messages, artifact=artifact), Expanded)

    async def rewind(self, *, version: int = 0, upto: int = 0) -> Rewound:
        """Make the context that of an earlier *version* again, or of the newest one within the first *upto* messages.

        The log keeps what was said since, and numbers go on counting: the next message is none of theirs. An operator
        must have allowed it. Raises `NotFound`, `Rejected`, `Erased`, `NotPermitted`.
        """
        return await self._ask("rewind", RewindAsked(version=version, upto=upto), Rewound)

    async def fork(
        self,
        conversation: str,
        *,
        version: int = 0,
        upto: int = 0,
        patience: float | None = None,
    ) -> Conversation:
        """Begin *conversation* with the history of this one at a *version*, or at the newest within *upto* messages.

        Without either, at the newest version. A version is made by each `context()`, not by each message: `upto` of the
        handle that is returned says how many messages are in it. The same fork again is no other one. An operator must
        have allowed it. Raises `NotFound`, `BadId`, `Rejected` where another history stands, `Erased`, `NotPermitted`.
        """
        token(conversation, "conversation")
        seconds = seconds_of(FORK_SECONDS, patience=patience)
        asked = ForkAsked(name=messages.without_surrogates(conversation), version=version, upto=upto)
        made = await self._ask("fork", asked, Forked, seconds)
        return replace(self, at=written_address(made.address), upto=made.upto, _asked=0, _unchecked=None)

    async def search(
        self, query: str, *, regex: bool = False, before: int = 0, most: int = HITS, context: int = 1
    ) -> Found:
        """Return the newest messages that hold all words of *query*, of all that was said, whatever the view shows.

        `"a phrase"` is one word; with *regex* the query is an RE2 expression for a line. Lines come with *context*
        around each, of *most* messages (50 at most), those before number *before*. Raises `NotFound`, `Rejected`.
        """
        asked = SearchAsked(query=query, regex=regex, before=before, most=most, context=context)
        return await self._ask("search", asked, Found)

    async def artifacts(self, *, before: int = 0, most: int = ARTIFACTS_MAX) -> list[KeptPart]:
        """Return the newest *most* artifacts (500), of messages before number *before* (0: all). Raises `NotFound`."""
        return await self._ask("artifacts", ArtifactsAsked(before=before, most=most), list[KeptPart])

    async def versions(
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
        asked = VersionsAsked(after=after, before=before, most=most, newest=newest, changes=changes, losses=losses)
        return await self._ask("versions", asked, list[Version])

    async def diff(self, older: int, newer: int, *, chars: int = TEXT_CHARS) -> Diff:
        """Return the differences between two versions, message by message; of each text *chars* characters.

        Raises `NotFound` where there is no such version.
        """
        return await self._ask("diff", DiffAsked(older=older, newer=newer, chars=chars), Diff)

    async def why(self, message: int, *, version: int = 0, chars: int = TEXT_CHARS) -> Why:
        """Return the events of *message* (by its number from 1; 0: the digest), by which rule, and how to read it.

        Up to a *version*, or to now. Raises `NotFound`.
        """
        return await self._ask("why", WhyAsked(message=message, version=version, chars=chars), Why)

    async def where(self, text: str) -> Where:
        """Return in which versions *text* stands in the view, and where else it is kept.

        Raises `NotFound` for no conversation, `Rejected` for an empty text.
        """
        return await self._ask("where", WhereAsked(text=text), Where)

    async def erase(self, *, yes: bool = False, by: str = "") -> Certificate:
        """Erase the conversation for good: its records, artifacts and key. Say `yes=True`: nothing brings it back.

        An operator must have allowed it. Once more, it removes what came since. Raises `NotFound`, `NotPermitted`.
        """
        if yes is not True:
            raise Rejected(f"nothing brings {self.at} back; say erase(yes=True)", address=str(self.at))
        return await self._ask("erase", EraseAsked(by=by), Certificate, FORK_SECONDS)

    async def answer_read(self, arguments: str | Mapping[str, Any]) -> str:
        """Return the result of a model's call of `tools.READ_TOOL` (JSON text, or a dict); errors are words to it."""
        try:
            return await self._read(read_asked(arguments))
        except Rejected as error:
            return f"Error: {error}"

    async def answer_read_content(self, arguments: str | Mapping[str, Any]) -> str | list[dict[str, Any]]:
        """Return the same, or for an image the content of a result that shows it, in the form of OpenAI chat."""
        try:
            asked = read_asked(arguments)
            found = await self._read(msgspec.structs.replace(asked, media=True))
        except Rejected as error:
            return f"Error: {error}"
        return image_content(found, asked.key) if found.startswith("data:image/") else found

    async def _read(self, asked: ReadAsked) -> str:
        _, body = await self._voice.ask("read", asked, self.client.patience_seconds)
        return body.decode("utf-8", "replace")

    async def _ask(self, verb: subjects.Verb, asked: Question, kind: type[T], seconds: float | None = None) -> T:
        """Return the answer of whoever serves, as one of *kind*."""
        patience = self.client.patience_seconds if seconds is None else seconds
        _, body = await self._voice.ask(verb, asked, patience)
        return msgspec.json.decode(body, type=kind)

    async def report_usage(
        self, *, input_tokens: int, output_tokens: int = 0, cached_tokens: int = 0, view_hash: str = ""
    ) -> None:
        """Report the tokens that the provider counted for a served view."""
        check_counts(input_tokens=input_tokens, output_tokens=output_tokens, cached_tokens=cached_tokens)
        check_texts(view_hash=view_hash)
        usage = UsageReported(
            input_tokens=input_tokens, output_tokens=output_tokens, cached_tokens=cached_tokens, view_hash=view_hash
        )
        await self.say((usage,))

    async def report_overflow(
        self, *, view_hash: str = "", requested_tokens: int = 0, limit_tokens: int = 0, message: str = ""
    ) -> None:
        """Tell that the provider refused a served view as too long; the next `context()` is a shorter one.

        Give its error's text, or the numbers themselves; where neither names any, more than we count is assumed.
        """
        check_counts(requested_tokens=requested_tokens, limit_tokens=limit_tokens)
        check_texts(view_hash=view_hash, message=message)
        if not requested_tokens and not limit_tokens:
            requested_tokens, limit_tokens = counts_in(message)
        overflow = OverflowReported(
            view_hash=view_hash,
            requested_tokens=requested_tokens,
            limit_tokens=limit_tokens,
            message=messages.without_surrogates(message)[:2000],
        )
        await self.say((overflow,))

    async def ready(self) -> AsyncIterator[Ready]:
        """Yield each announcement that the view is ready, from now on."""
        subscription = await self.client.connection.subscribe(subjects.ready(self.at))
        try:
            async for message in subscription.messages:
                yield msgspec.json.decode(message.data, type=Ready)
        finally:
            await subscription.unsubscribe()

    async def say(self, facts: tuple[SaidFact, ...], *, at_ms: int = 0) -> int:
        """Publish one envelope; see `Voice.say`."""
        return await self._voice.say(facts, at_ms=at_ms, patience=self.client.patience_seconds)
