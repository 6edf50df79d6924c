"""Commands about the policy: `policy show`, `policy set`, `policy schema`, `policy import`."""

from __future__ import annotations

import json
import sys
import tomllib
from contextlib import suppress
from pathlib import Path
from typing import Any

import dotenv
import msgspec
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from actors.host.bootstrap import Runtime
from actors.model_info.windows import window_found
from protocol import policy as policies
from protocol.client import Client, Conversation
from protocol.errors import BadPolicy
from protocol.ids import written_address
from protocol.presets import PRESETS, merge

from .options import StackOptions, WrongUsage
from .policy_import import ImportedPolicy, from_digitorn, from_docsgpt, from_holmes, system_of
from .policy_keys import described
from .session import connected, printed, said, shown

SYSTEMS = ("digitorn", "docsgpt", "holmes")


def show(*, files: list[Path], preset: str, window: int | None, as_json: bool) -> int:
    """Print the resolved policy of *files* over a preset; see `jettison policy show --help`."""
    if mistaken := [file for file in files if str(file) in PRESETS and not file.exists()]:
        raise BadPolicy(f"there is no file {mistaken[0]}; the preset is shown by --preset {mistaken[0]}", key="preset")
    if preset and preset not in PRESETS:
        raise WrongUsage(f"preset must be one of {', '.join(PRESETS)}, not {preset!r:.40}")
    base: dict[str, Any] = {"preset": preset} if preset else {}
    top: dict[str, Any] = {"budget": {"window": window}} if window else {}
    policy = policies.resolve([base, *(_layer(file) for file in files), top])
    document = msgspec.to_builtins(policy)
    if as_json:
        printed({"hash": policies.fingerprint(policy), "usable_tokens": policy.usable_tokens, "policy": document})
        return 0
    sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")
    said(f"{policies.fingerprint(policy)}: {policy.usable_tokens:,} usable tokens of {policy.budget.window:,}")
    return 0


def set_(stack: StackOptions, conv: str, values: list[str], *, as_json: bool) -> int:
    """Change a conversation's policy; see `jettison policy set --help`."""
    layer: dict[str, Any] = {}
    for one in values:
        key, equals, text = one.partition("=")
        if not key or not equals:
            raise WrongUsage(f"say KEY=VALUE, not {one!r:.80}")
        layer = merge(layer, _one(key, text))

    async def main(running: Runtime) -> int:
        at = written_address(conv)
        talk = Conversation(client=Client(connection=running.connection), at=at)
        # asked, not done here: the layers and locks are those of the service
        changed = await talk.set_policy(layer, by=running.by)
        what = f"{', '.join(changed.keys)} changed" if changed.keys else "nothing changed"
        shown(changed, f"{at}@{changed.version}: {what}\n", as_json=as_json)
        return 0

    return connected(main, stack)


def _one(key: str, text: str) -> dict[str, Any]:
    """Return the layer that KEY=VALUE says: as JSON where it is some, `none` for none where the key takes that."""
    if text == "none":
        with suppress(BadPolicy):
            policies.converted(_below(key, None))
            return _below(key, None)
    try:
        return _below(key, json.loads(text))
    except ValueError:
        return _below(key, text)


def _below(key: str, value: Any) -> dict[str, Any]:
    first, _, rest = key.partition(".")
    return {first: _below(rest, value) if rest else value}


def windows(models: list[str]) -> int:
    """Print the windows of *models*; see `jettison policy windows --help`."""
    unknown = 0
    for model in models:
        found = window_found(model)
        unknown += found is None
        told = f"{found.tokens:,} tokens ({found.source}: {found.why})" if found else "not known: set budget.window"
        sys.stdout.write(f"{model}: {told}\n")
    return 1 if unknown else 0


def schema() -> int:
    """Print the JSON Schema of the policy, each key with what it does."""
    sys.stdout.write(json.dumps(described(), indent=2) + "\n")
    return 0


def import_(*, file: Path, system: str, agent: str) -> int:
    """Print another system's settings as a layer of the policy; see `jettison policy import --help`."""
    if system and system not in SYSTEMS:
        raise WrongUsage(f"--from is one of {', '.join(SYSTEMS)}, not {system!r:.40}")
    imported = _imported(file, system, agent)
    policies.resolve([imported.layer])
    sys.stdout.write(json.dumps(imported.layer, indent=2, ensure_ascii=False) + "\n")
    for note in imported.notes:
        said(f"note: {note}")
    return 0


def _imported(file: Path, system: str, agent: str) -> ImportedPolicy:
    settings = _yaml(file) if file.suffix in (".yaml", ".yml") else _dotenv(file)
    wanted = system or system_of(settings)
    if wanted == "digitorn":
        return from_digitorn(settings, agent=agent)
    return from_docsgpt(settings) if wanted == "docsgpt" else from_holmes(settings)


def _layer(file: Path) -> dict[str, Any]:
    """Return the layer in a TOML, JSON or YAML file, its keys and types checked."""
    layer = _toml(file) if file.suffix == ".toml" else _yaml(file)  # JSON is YAML
    try:
        policies.converted(layer)
    except BadPolicy as error:
        raise BadPolicy(f"{file}: {error}", **error.fields) from None
    return layer


def _toml(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise BadPolicy(f"{file.name} is not TOML: {error}", key="") from None


def _dotenv(file: Path) -> dict[str, str | None]:
    try:
        # opened here: a file that is not there would be taken for an empty one
        with file.open(encoding="utf-8") as text:
            return dict(dotenv.dotenv_values(stream=text, interpolate=False))
    except UnicodeDecodeError as error:
        raise BadPolicy(f"{file.name} is not a file of settings: {error}", key="") from None


def _yaml(file: Path) -> dict[str, Any]:
    try:
        # YAML 1.2: in 1.1 the key `on` of a hook would be the value true
        value = YAML(typ="safe", pure=True).load(file.read_text(encoding="utf-8"))
    except (YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise BadPolicy(f"{file.name} is not YAML or JSON: {' '.join(str(error).split())[:200]}", key="") from None
    if not isinstance(value, dict):
        raise BadPolicy(f"{file.name} must hold an object, not {type(value).__name__}", key="")
    return value
