"""Guarded: nats-py's connection, which says what the server refused and never speaks plain text where it must not.

nats-py upgrades to TLS where the server asks for it, whatever the URL says; and a request that the server forbids ends
as a timeout, since the refusal comes apart from all answers. Here it comes as the answer.
"""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import nats.errors
from nats.aio.client import Client as NatsConnection
from nats.aio.client import Srv
from nats.aio.msg import Msg

from .errors import NotPermitted
from .login import Login
from .newest import Newest

log = logging.getLogger("jettison.nats")

ASKED_MAX = 8192
"""Questions that are remembered until they are answered; an older one that is refused waits for its time."""

UNSENT_BYTES_MAX = 65_536
"""That the network has not taken yet, before what is published waits in nats-py, which bounds it."""

CLOSE_SECONDS = 2.0
"""For what is still to be sent; what must arrive was confirmed before."""

_VIOLATION = re.compile(r'permissions violation for (publish|subscription) (?:with reply of )?(?:to )?"([^"]*)"')
_END = "unexpected eof"
_WAY_BACK = "_r_."
"""Subjects that NATS makes for an answer to another account; they end with the connection of who is to answer."""

_BLANK = re.compile(r"\s")

_AUTHORIZATION = re.compile(r"authorization violation|authentication (?:expired|revoked|timeout)|account .*(?:expired)")


@dataclass
class Refusal(Msg):
    """Comes where an answer would have come. A type of its own: headers are written by whoever likes to."""

    why: str = ""


class Guarded(NatsConnection):
    """One connection of *login*, encrypted where *encrypts* says so."""

    def __init__(self, login: Login, *, encrypts: bool) -> None:
        super().__init__()
        self.login = login
        self.refused = ""
        """Why the server does not let this user in; empty while it does."""
        self.ends: list[Callable[[], object]] = []
        """What is called when it is closed for good: who waits for an answer then waits in vain."""
        self._encrypts = encrypts
        self._asked: Newest[str, str] = Newest(ASKED_MAX)
        self._heard = ""
        """The newest refusal that was somebody's answer."""
        self._deaf: NotPermitted | None = None
        self._is_ended = False
        self._writes = False

    async def publish(
        self, subject: str, payload: bytes = b"", reply: str = "", headers: dict[str, Any] | None = None
    ) -> None:
        """Publish; where an answer is wanted, a refusal is one."""
        if reply:
            if self._deaf is not None:
                raise self._deaf
            self._asked[reply] = subject
        await super().publish(subject, payload, reply, headers)

    async def _request_new_style(
        self, subject: str, payload: bytes, timeout: float = 1, headers: dict[str, Any] | None = None
    ) -> Msg:
        """Ask as nats-py does, and wait for the answer itself and not for a future of a future."""
        if self.is_draining_pubs:
            raise nats.errors.ConnectionDrainingError
        if not self._resp_sub_prefix:
            await self._init_request_sub()
        token = self._nuid.next().decode() + secrets.token_hex(2)
        answer: asyncio.Future[Msg] = asyncio.get_running_loop().create_future()
        self._resp_map[token] = answer
        try:
            await self.publish(subject, payload, f"{bytes(self._resp_sub_prefix or b'').decode()}{token}", headers)
            async with asyncio.timeout(timeout):
                return await answer
        except TimeoutError:
            raise nats.errors.TimeoutError from None
        finally:
            self._resp_map.pop(token, None)

    async def _process_msg(self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes) -> None:
        """Hand a message on; who never waits gets it here, and not from a task that has to be woken for it."""
        subscription = self._subs.get(sid)
        take = getattr(subscription._cb, "take", None) if subscription is not None else None
        is_answer = self._resp_sub_prefix is not None and subject.startswith(self._resp_sub_prefix)
        if subscription is None or not (take or is_answer):
            return await super()._process_msg(sid, subject, reply, data, headers)
        self.stats["in_msgs"] += 1
        self.stats["in_bytes"] += len(data)
        subscription._received += 1
        message = self._build_message(sid, subject, reply, data, await self._process_headers(headers))
        if take is not None:
            try:
                take(message)
            except Exception:
                # nats-py would cease to read, and nobody on this connection hear anything any more
                log.exception("nats: a message on %s was not taken", message.subject)
        elif (answer := self._resp_map.get(message.subject.rpartition(".")[2])) is not None and not answer.done():
            answer.set_result(message)

    def _build_message(
        self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: dict[str, str] | None
    ) -> Msg:
        """Make a message; bytes of a subject that are no text are no reason to cease to read, as nats-py does."""
        told, back = (one.decode("utf-8", "backslashreplace") for one in (subject, reply))
        return self.msg_class(subject=told, reply=back, data=data, headers=headers, _client=self, _sid=sid)

    async def _flush_pending(self, force_flush: bool = False) -> Any:
        """Write what was published where the network takes it; nats-py wakes a task of its own for that."""
        writer = getattr(self._transport, "_io_writer", None)
        if force_flush or writer is None or writer.transport.get_write_buffer_size() > UNSENT_BYTES_MAX:
            return await super()._flush_pending(force_flush)
        if not self._writes:
            self._writes = True
            # behind all that runs now: what others publish meanwhile goes along
            asyncio.get_running_loop().call_soon(self._write)
        return None

    def _write(self) -> None:
        self._writes = False
        writer = getattr(self._transport, "_io_writer", None)
        if self._pending and writer is not None and self.is_connected and not writer.is_closing():
            sent, self._pending, self._pending_data_size = self._pending, [], 0
            writer.writelines(sent)

    async def _send_ping(self, future: asyncio.Future[Any] | None = None) -> None:
        # nats-py writes it at once: its answer would say nothing of what was published before it and waits
        self._write()
        await super()._send_ping(future)

    @staticmethod
    def _parse_header_lines(raw: bytes) -> dict[str, str]:
        # nats-py asks each letter of each name whether it is a blank: a seventh of all that a reader of the log does
        return header_lines(raw)

    async def close(self) -> None:
        """Close; whether the other end is still there, and takes what it was sent, is no matter."""
        self._is_ended = True
        late = asyncio.get_running_loop().call_later(CLOSE_SECONDS, self._drop)
        try:
            with suppress(OSError):
                await super().close()
        finally:
            late.cancel()
            self._drop()

    async def _close(self, status: int, do_cbs: bool = True) -> None:
        for end in self.ends:
            end()
        await super()._close(status, do_cbs)

    def heed(self, error: Exception) -> str:
        """Take what the server or the network said; return a sentence about it, empty if it is nothing new."""
        text = str(error)
        if violation := _VIOLATION.search(text.lower()):
            return self._forbidden(violation[1], violation[2])
        if (told := told_of(error, self.login)) == self.refused:
            return ""
        if _AUTHORIZATION.search(text.lower()):
            self.refused = told
        return told

    def _forbidden(self, what: str, subject: str) -> str:
        """Answer all who wait for *subject*, who then say it; nats-py tells it in lower case.

        Return the sentence where nobody does.
        """
        if what == "publish" and subject.startswith(_WAY_BACK):
            return ""  # it came before this connection was made anew: who asked asks again
        if what == "publish":
            told = f"Permissions Violation: {self.login.who} may not publish to {subject}"
            asked = [reply for reply, there in self._asked.items() if there.lower() == subject]
        else:
            told = f"Permissions Violation: {self.login.who} may not subscribe to {subject}"
            if not subject.startswith(self.login.inbox.lower()):
                return told
            told += (
                "; its inboxes are elsewhere: set inbox_prefix (JETTISON_NATS__INBOX_PREFIX) to what "
                "the server's configuration lets it hear"
            )
            self._deaf = NotPermitted(told, subject=subject)
            asked = list(self._asked)
        if any([self._answer(reply, told, self._asked.pop(reply)) for reply in asked]):
            self._heard = told
        # the server says it to each of several who asked at once, and the first time answered all
        return "" if told == self._heard else told

    def _answer(self, reply: str, told: str, subject: str) -> bool:
        """Give *told* to who waits at *reply*; tell whether somebody does."""
        waiting = self._resp_map.get(reply.rpartition(".")[2])
        if waiting is not None and not waiting.done():
            waiting.set_exception(NotPermitted(told, subject=subject))
            return True
        # one for many answers hears below a name of its own; that of nats-py's requests was looked at above
        mailbox = f"{reply.rpartition('.')[0]}.*"
        asks = f"{bytes(self._resp_sub_prefix or b'').decode()}*"
        waiters = [one for one in self._subs.values() if one.subject in (reply, mailbox) and one.subject != asks]
        for subscription in waiters:
            subscription._pending_queue.put_nowait(Refusal(_client=self, subject=reply, why=told))
        return bool(waiters)

    async def _process_info(self, info: dict[str, Any], initial_connection: bool = False) -> None:
        if self._encrypts and info.get("tls_available"):
            info["tls_required"] = True  # nats-py goes by this alone
        await super()._process_info(info, initial_connection)

    async def _process_pong(self) -> None:
        if self._pongs and self._pongs[0].done():
            self._pongs[0] = asyncio.Future()  # nobody waits for it any more; nats-py would cease to read
        await super()._process_pong()

    async def _attempt_reconnect(self) -> None:
        self._drop()
        await super()._attempt_reconnect()

    async def _connect_to_server(self, s: Srv) -> None:
        # nats-py leaves it open where a server let nobody in: five a second
        self._drop()
        if self._is_ended:
            raise asyncio.CancelledError  # it was told so at a moment in which asyncio does not hear it
        await super()._connect_to_server(s)

    def _drop(self) -> None:
        """Let go of the connection, with what a server that hangs has not taken: a close waits until it does."""
        writer = getattr(self._transport, "_io_writer", None)
        if writer is not None:
            # early releases of Python 3.11 have forgotten what they closed twice over TLS
            with suppress(AttributeError):
                writer.transport.abort()

    def _connect_command(self) -> bytes:
        """Return the first that is said to a server, with the password in it; raise where others could hear it."""
        writer = getattr(self._transport, "_io_writer", None)
        if writer is not None and writer.get_extra_info("ssl_object") is not None:
            # nats-py does not tell its stream, which asyncio would complain of at the end
            writer._protocol._over_ssl = True
        elif self._encrypts and writer is not None:
            raise nats.errors.SecureConnWantedError
        return super()._connect_command()


async def published() -> None:
    """Return once what other tasks publish in this round of the loop is on its way, for who works while they wait."""
    await asyncio.sleep(0)
    await asyncio.sleep(0)


def header_lines(raw: bytes) -> dict[str, str]:
    """Return the headers in *raw*, one to a line; a line without a colon, or with an odd name, is none."""
    out: dict[str, str] = {}
    for line in raw.split(b"\r\n"):
        name, colon, value = line.partition(b":")
        if colon and (key := _header_name(name)) is not None:
            out[key] = value.strip().decode("utf-8", "replace")
    return out


@lru_cache(maxsize=256)
def _header_name(name: bytes) -> str | None:
    """Return a header's name as text; None where it is none. All messages have the same few."""
    name = name.strip()
    return name.decode() if name.isascii() and not _BLANK.search(name.decode()) else None


def prompt(take: Callable[[Msg], object]) -> Callable[[Msg], Awaitable[None]]:
    """Return *take*, which does not wait, as a subscription's callback: called before the next message is read.

    What it raises is logged, and the message lost.
    """

    async def taken(message: Msg) -> None:
        take(message)

    taken.take = take  # type: ignore[attr-defined]
    return taken


def check(message: Msg) -> None:
    """Raise `NotPermitted` where a message stands for a refusal."""
    if isinstance(message, Refusal):
        raise NotPermitted(message.why)


def is_final(error: Exception) -> bool:
    """Tell whether a server will say the same again to who tries once more."""
    return isinstance(error, ssl.SSLError | nats.errors.SecureConnWantedError) or bool(
        str(error) and type(error) is nats.errors.Error and _END not in str(error).lower()
    )


def told_of(error: Exception, login: Login) -> str:
    """Return the message of a server or the network, in words that name who was meant and what to set."""
    text = str(error).removeprefix("nats: ").strip("'\" ")
    if _AUTHORIZATION.search(text.lower()):
        return f"{text.title()} for {login.who}"
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"its certificate is not trusted ({error.verify_message}); "
            "set ca_file (JETTISON_NATS__CA_FILE) to its authority's certificate"
        )
    if isinstance(error, ssl.SSLError):
        return _of_tls(error)
    if isinstance(error, nats.errors.SecureConnWantedError):
        return "it speaks plain text, and TLS is wanted; nothing was said to it"
    if isinstance(error, TimeoutError) or "empty response" in text:
        return "it does not greet: it hangs, or wants TLS first (tls_first, JETTISON_NATS__TLS_FIRST)"
    if _END in text.lower():
        return "the server ended the connection, reconnecting"
    if isinstance(error, nats.errors.Error) and text:
        return f"{text} ({login.who})"
    return type(error).__name__


def _of_tls(error: ssl.SSLError) -> str:
    reason = (error.reason or type(error).__name__).replace("_", " ").lower()
    if "certificate" in reason:
        return f"{reason}: set cert_file and key_file (JETTISON_NATS__CERT_FILE, …) to a certificate that it takes"
    if "wrong version" in reason or "record layer" in reason:
        return f"it does not begin with TLS ({reason}); unset tls_first (JETTISON_NATS__TLS_FIRST)"
    return f"TLS failed: {reason}"
