"""Log lines: each entry as a line of JSON, for who gathers logs; with the ids of the trace that it belongs to."""

from __future__ import annotations

import logging
from datetime import UTC, datetime

import msgspec
from opentelemetry import trace


class LogLines(logging.Formatter):
    """Formats each entry as one object: time, level, logger, message, service, and trace and error where there are."""

    def __init__(self, *, service: str) -> None:
        super().__init__()
        self._service = service

    def format(self, record: logging.LogRecord) -> str:
        """Return one line."""
        entry = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            "service": self._service,
        }
        # formatted where it was logged, so that the span that is open there is the one that it belongs to
        context = trace.get_current_span().get_span_context()
        if context.is_valid:
            entry |= {"trace_id": trace.format_trace_id(context.trace_id)}
            entry |= {"span_id": trace.format_span_id(context.span_id)}
        if record.exc_info:
            entry["error"] = self.formatException(record.exc_info)
        # what UTF-8 cannot hold is escaped: an entry is never lost for a name of a file
        return msgspec.json.encode({key: _clean(value) for key, value in entry.items()}).decode()


def _clean(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()
