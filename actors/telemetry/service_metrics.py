"""Metrics of what runs around the steps: answers to agents, dead letters, queues, the log."""

from __future__ import annotations

from typing import Literal, get_args

from protocol import semconv

from .setup import gauge, histogram, metric_counter

Retained = Literal["archived", "erased", "failed"]
RETAINED: tuple[Retained, ...] = get_args(Retained)
"""Of an idle conversation that was due."""


def record_served(verb: str, *, seconds: float, error: str = "") -> None:
    """Count one answer of the context service; *error* is the class of a refusal or fault."""
    labels = {semconv.VERB: verb} | ({semconv.ERROR_TYPE: error} if error else {})
    about = "Time from an agent's question to its answer, the wait for the actors included"
    histogram(semconv.SERVE_DURATION, "s", about).record(seconds, labels)


def record_letter(stage: str, reason: str, *, letters: int = 1) -> None:
    """Count wake-ups that were given up; none makes their count begin, so that the first one is seen as more."""
    given_up = metric_counter(semconv.DEAD_LETTERS, "{letter}", "Wake-ups that were given up (`jettison dlq list`)")
    given_up.add(letters, {semconv.STAGE: stage, semconv.REASON: reason})


def record_queue(stage: str, lane: str, *, slots: int, age_seconds: float) -> None:
    """Say how many slots of a lane nobody has taken, and since when its oldest is filled."""
    labels = {semconv.STAGE: stage, semconv.LANE: lane}
    waits = gauge(semconv.QUEUE_SLOTS, "{slot}", "Conversations that wait and that no worker has taken")
    waits.set(slots, labels)
    age = gauge(semconv.QUEUE_AGE, "s", "Since when the oldest wake-up that is not done waits")
    age.set(age_seconds, labels)


def record_log(*, size_bytes: int, replicas_behind: int) -> None:
    """Say how large the log is, and how many of its copies have not all of it."""
    gauge(semconv.LOG_BYTES, "By", "Size of the log, in one copy").set(size_bytes)
    behind = gauge(semconv.LOG_REPLICAS_BEHIND, "{replica}", "Copies of the log that have not all of it")
    behind.set(replicas_behind)


def record_storage(*, used_bytes: int, limit_bytes: int) -> None:
    """Say how much of its room on NATS' disks the account uses; a limit of 0 or less is none."""
    gauge(semconv.STORAGE_USED, "By", "What all streams take on NATS' disks").set(used_bytes)
    if limit_bytes > 0:
        gauge(semconv.STORAGE_LIMIT, "By", "What the account may take of them").set(limit_bytes)


def record_anchors(*, age_seconds: float) -> None:
    """Say how old the newest anchor is of the tenant whose newest is the oldest."""
    gauge(semconv.ANCHORS_AGE, "s", "Since when a tenant has no newer anchor").set(age_seconds)


def record_retained(outcome: Retained, *, conversations: int = 1) -> None:
    """Count idle conversations; none makes their count begin."""
    about = "Idle conversations that `jettison retain` archived or erased, or failed to"
    counted = metric_counter(semconv.RETENTION_CONVERSATIONS, "{conversation}", about)
    counted.add(conversations, {semconv.RETENTION_OUTCOME: outcome})


def record_overdue(*, age_seconds: float) -> None:
    """Say since when the oldest conversation is due that a round could not archive or erase; 0: there is none."""
    about = "Since when the oldest conversation is due that `jettison retain` fails to archive or to erase"
    gauge(semconv.RETENTION_OVERDUE, "s", about).set(age_seconds)


def record_round(*, failed: bool) -> None:
    """Say whether the last round ended before it had looked at all that is due."""
    about = "1: the last round of `jettison retain` broke off (NATS or the store did not answer, or a clock is wrong)"
    gauge(semconv.RETENTION_FAILED, "{round}", about).set(int(failed))
