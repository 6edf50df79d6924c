"""A stack as a user starts it, for the tests of commands that change a conversation."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.stack import jettison_up


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Run `jettison up` on a folder; yield the folder."""
    folder = tmp_path_factory.mktemp("undone")
    with jettison_up(folder):
        yield folder
