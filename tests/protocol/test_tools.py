"""Tools: the definition that a model sees, and its calls as they come."""

from __future__ import annotations

import json
from typing import Any

import pytest

from protocol.errors import Rejected
from protocol.service_messages import ReadAsked
from protocol.tools import READ_ARTIFACT, READ_TOOL, read_asked


def test_the_definition_offers_what_can_be_asked() -> None:
    function = READ_ARTIFACT["function"]
    assert (READ_ARTIFACT["type"], function["name"]) == ("function", READ_TOOL)
    assert set(function["parameters"]["properties"]) == set(ReadAsked.__struct_fields__) - {"bytes_max", "media", "own"}
    assert function["parameters"]["required"] == ["key"]
    assert json.loads(json.dumps(READ_ARTIFACT)) == READ_ARTIFACT


@pytest.mark.parametrize(
    ("arguments", "asked"),
    [
        ({"key": "ab"}, ReadAsked(key="ab")),
        ({"key": "ab", "lines": 7}, ReadAsked(key="ab", lines="7")),
        ({"key": "ab", "context": "4", "pattern": "x"}, ReadAsked(key="ab", context=4, pattern="x")),
        ({"key": "ab", "bytes": "1-9", "json_path": "$.a"}, ReadAsked(key="ab", bytes="1-9", json_path="$.a")),
    ],
)
def test_a_call_is_read_as_models_write_it(arguments: dict[str, Any], asked: ReadAsked) -> None:
    assert read_asked(json.dumps(arguments)) == read_asked(arguments) == asked


UNUSABLE = ["", "{", "[]", "{}", '{"key": []}', '{"key": "a", "offset": 3}', "\ud800", {}, {"key": 4}, None, object()]


@pytest.mark.parametrize("arguments", UNUSABLE)
def test_a_call_that_cannot_be_read_is_refused(arguments: Any) -> None:
    with pytest.raises(Rejected, match="the arguments of read_artifact cannot be used"):
        read_asked(arguments)


def test_a_model_that_names_an_argument_wrongly_is_told_the_right_one() -> None:
    with pytest.raises(Rejected, match="did you mean `lines`"):
        read_asked({"key": "messages:4", "line": "1-2"})
