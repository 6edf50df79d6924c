"""Whoever keeps conversations elsewhere names the adapter in one place: no command makes a store of its own."""

import ast
import re

from tests.test_tidy import at, classes, python_files, tree

COMPOSED_IN = "actors/host/adapters.py"
TECHNOLOGY = re.compile(r"(JetStream|Nats|S3|Folder)[A-Z]")
NO_STORES = {"JetStreamSlot", "NatsRequest", "S3Settings"}
"""What stores hand out, and what they are made with."""


def test_an_adapter_is_made_where_all_are_named_and_nowhere_else() -> None:
    names = {node.name for file in python_files("storage", "protocol") for node in classes(file)}
    adapters = {name for name in names if TECHNOLOGY.match(name)} - NO_STORES
    made = [
        (file, node.lineno, ast.unparse(node.func).rpartition(".")[2])
        for file in python_files("actors")
        for node in ast.walk(tree(file))
        if isinstance(node, ast.Call)
    ]
    found = [(at(file, line), name) for file, line, name in made if name in adapters]
    assert [(place, name) for place, name in found if not place.startswith(COMPOSED_IN)] == []
    assert adapters == {name for _, name in found}
