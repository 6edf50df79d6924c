"""Each target of `make fuzz`, for a moment."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings

from .mutation import mutated
from .targets import TARGETS


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("name", TARGETS)
def test_bytes_of_strangers_are_refused_or_read(name: str) -> None:
    target = TARGETS[name]
    moment = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
    moment(given(mutated(target.seeds()))(target.check))()
