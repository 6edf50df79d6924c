"""Settings: defaults < TOML file < environment < flags, into one typed document.

The file is `jettison.toml` (or `--config`); `JETTISON_NATS__URL` in the environment is `nats.url` in the
file. Unknown keys are errors. Secrets come from the environment only, or from a file that
`JETTISON_S3__SECRET_KEY_FILE` names.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from actors.spill.policy_layers import Layers, TenantLayer
from protocol import codec
from protocol.errors import BadPolicy, in_words
from protocol.ids import token
from protocol.login import Login, parted
from protocol.policy_words import key_of
from storage.s3 import S3Settings

PREFIX = "JETTISON_"
FILE_NAME = "jettison.toml"
LOG_LEVEL = "JETTISON_LOG"
"""Not a setting: DEBUG, INFO, WARNING or ERROR for the log on stderr. The default is WARNING, and a line for each
request of a gateway."""

_KUBERNETES = re.compile(r"JETTISON_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT(_[A-Z0-9_]+)?)")
"""What Kubernetes sets in every pod beside a Service called `jettison`: nobody's wish, and no setting of ours."""

SECRETS = frozenset(
    (
        *(("s3", "access_key"), ("s3", "secret_key"), ("llm", "api_key"), ("nats", "password"), ("nats", "token")),
        *(("gateway", "openai_key"), ("gateway", "anthropic_key"), ("gateway", "callers")),
        ("mcp", "callers"),
    )
)


NO_SECRET_IN_URL = f"set {PREFIX}NATS__USER and {PREFIX}NATS__PASSWORD (or {PREFIX}NATS__PASSWORD_FILE) instead"


class _Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A part of the settings; an unknown key is an error."""


class NatsSection(_Section, frozen=True, kw_only=True):
    """The NATS server; an empty URL means the embedded one. What the rest means: `Login`."""

    url: str = ""
    user: str = ""
    password: str = ""
    token: str = ""
    nkey_file: str = ""
    creds_file: str = ""
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""
    tls_first: bool = False
    inbox_prefix: str = ""
    replicas: int = 1

    def login(self) -> Login:
        """Return as whom to connect: all but the address and the number of copies."""
        return Login(**{one.name: getattr(self, one.name) for one in fields(Login)})


class LlmSection(_Section, frozen=True, kw_only=True):
    """An endpoint that speaks OpenAI's API; which model is asked is part of the policy."""

    base_url: str = ""
    api_key: str = ""


class TelemetrySection(_Section, frozen=True, kw_only=True):
    """Where spans go when no OTLP variable is set; empty: `traces` below the data folder."""

    folder: str = ""


class LogSection(_Section, frozen=True, kw_only=True):
    """How a process logs on stderr; how much is `JETTISON_LOG`."""

    format: Literal["text", "json"] = "text"
    """`json`: each entry is one line of JSON, with the ids of its trace."""


class ProbeSection(_Section, frozen=True, kw_only=True):
    """Where a process that runs on answers `/healthz`, `/readyz` and `/metrics`; it asks for no login."""

    port: Annotated[int, msgspec.Meta(ge=0, le=65535)] = 0
    """0: nowhere."""
    listen: str = "127.0.0.1"


class KeysSection(_Section, frozen=True, kw_only=True):
    """The tenants' keys, a file `TENANT.key` each; without a folder the log is kept in plain text."""

    folder: str = ""
    """Empty means `keys` below the data folder where the stack is the embedded one, and none where NATS is given."""
    make: bool = False
    """Make the key of a tenant that has none; the embedded stack does so in its own folder."""


class AnchorSection(_Section, frozen=True, kw_only=True):
    """Anchors that `jettison up` writes by itself; elsewhere `jettison anchor --every` does."""

    seconds: float = 300.0
    """Between two of them: what may be lost at the end of a log without proof. 0: none."""


class PageSection(_Section, frozen=True, kw_only=True):
    """Who sees the page (`jettison serve`): without users, everybody on this machine, and all of it."""

    users: dict[str, tuple[str, ...]] = {}
    """The tenants of each user whom the proxy in front names."""
    header: str = "X-Forwarded-User"
    """In which the proxy names the user; it must take away what a visitor writes there."""
    socket: str = ""
    """The Unix socket at which the proxy asks."""
    peers: tuple[str, ...] = ()
    """Addresses that the proxy asks from, where it is not by the socket."""
    listen: str = "127.0.0.1"
    hosts: tuple[str, ...] = ()
    """Names under which browsers know the proxy."""


class UpstreamSection(_Section, frozen=True, kw_only=True):
    """Where the gateway finds the providers; no request can name another place."""

    openai: str = "https://api.openai.com/v1"
    anthropic: str = "https://api.anthropic.com"


class GatewaySection(_Section, frozen=True, kw_only=True):
    """What agents reach by their base URL (`jettison gateway`): `infra/docs/gateway.md`."""

    listen: str = "127.0.0.1"
    port: Annotated[int, msgspec.Meta(ge=0, le=65535)] = 8322
    upstream: UpstreamSection = UpstreamSection()
    mode: Literal["manage", "pass"] = "manage"
    """`pass`: forward everything as it came, and keep nothing."""
    deadline_seconds: Annotated[float, msgspec.Meta(gt=0, le=60)] = 1.5
    """What managing may cost a request; then it goes on as it came."""
    on_failure: Literal["forward", "refuse"] = "forward"
    """While NATS, the store or the workers are away."""
    drain_seconds: Annotated[int, msgspec.Meta(ge=0, le=3600)] = 15
    """So long answers that are under way may go on when the gateway is told to stop: less than its supervisor waits."""
    retrieval: Literal["inject", "mcp", "off"] = "inject"
    """How a model follows pointers: by a tool of the gateway's, by one that the agent brings, or not at all."""
    mcp_tool: str = "read_artifact"
    """What the agents' own tool is called where `retrieval` is `mcp`, mostly with its server's name before it."""
    window: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Tokens of every model's window; 0: as the policy and the table of models say."""
    tenant: str = "default"
    """Whose conversations those of callers with keys of their own are."""
    body_bytes_max: Annotated[int, msgspec.Meta(ge=1)] = 64 * 2**20
    """A larger request is forwarded as it comes, and not looked at."""
    openai_key: str = ""
    anthropic_key: str = ""
    """The gateway's own keys; empty: each caller's own is forwarded."""
    callers: str = ""
    """Who may use them: lines of tenant, SHA-256 of the caller's token, and until when."""
    cert_file: str = ""
    key_file: str = ""
    """For TLS."""


class McpSection(_Section, frozen=True, kw_only=True):
    """What agents' clients read back with (`jettison mcp`): `infra/docs/mcp.md`."""

    tenant: str = "default"
    """Whose conversations are read over stdio, and over HTTP on loopback where there is no list of callers."""
    conversations: str = ""
    """Which of them: safe names, or how they begin, with a `*`; spaces between. Empty: all."""
    read_only: bool = False
    """`expand`, which changes what the next view shows, is not offered."""
    listen: str = "127.0.0.1"
    port: Annotated[int, msgspec.Meta(ge=0, le=65535)] = 8323
    callers: str = ""
    """Who may ask over HTTP, as `gateway.callers`, which is taken where this is empty."""
    hosts: tuple[str, ...] = ()
    """Names under which clients know it, where it is not on loopback, as `Host` has them."""
    origins: tuple[str, ...] = ()
    """Web pages that may ask, as `Origin` has them; others are refused."""
    cert_file: str = ""
    key_file: str = ""
    """For TLS."""


class RulesSection(_Section, frozen=True, kw_only=True):
    """By which rules the workers decide."""

    write: int = 0
    """Version of the rules that decide what is written; 0: the newest one. An older one while workers are left that do
    not read newer ones (`jettison doctor` says so)."""


class TenantSection(_Section, frozen=True, kw_only=True):
    """What holds for the conversations of one tenant, named by the key of the section."""

    policy: dict[str, Any] = {}
    """Its layer of the policy, over the service's own."""
    locked: tuple[str, ...] = ()


class Settings(_Section, frozen=True, kw_only=True):
    """All settings of a process."""

    data: str = ""
    nats: NatsSection = NatsSection()
    s3: S3Settings = S3Settings()
    llm: LlmSection = LlmSection()
    telemetry: TelemetrySection = TelemetrySection()
    log: LogSection = LogSection()
    probe: ProbeSection = ProbeSection()
    anchor: AnchorSection = AnchorSection()
    keys: KeysSection = KeysSection()
    page: PageSection = PageSection()
    gateway: GatewaySection = GatewaySection()
    mcp: McpSection = McpSection()
    rules: RulesSection = RulesSection()
    policy: dict[str, Any] = {}
    """The service's layer of the policy."""
    locked: tuple[str, ...] = ()
    """Keys of the policy, such as `squeeze.model` or `budget`, that no conversation changes."""
    tenants: dict[str, TenantSection] = {}

    @property
    def layers(self) -> Layers:
        """Return the layers below the policies of conversations."""
        tenants = {token(name): TenantLayer(policy=one.policy, locked=one.locked) for name, one in self.tenants.items()}
        return Layers(service=self.policy, locked=self.locked, tenants=tenants)

    @property
    def rules_written(self) -> str:
        """Return the version of the rules that decide what this process writes."""
        return str(self.rules.write) if self.rules.write else codec.RULES_VERSION


def load(
    *, file: Path | None = None, environment: Mapping[str, str] | None = None, flags: Mapping[str, Any] | None = None
) -> Settings:
    """Return the settings. Raises `BadPolicy` that names the key and where it came from."""
    given = os.environ if environment is None else environment
    environment = {name: value for name, value in given.items() if not _KUBERNETES.fullmatch(name)}
    layers = [_from_file(file), _from_environment(environment), dict(flags or {})]
    merged: dict[str, Any] = {}
    for layer in layers:
        _merge_into(merged, layer)
    _conventional(merged, environment)
    try:
        settings = msgspec.convert(merged, Settings, strict=False)
    except msgspec.ValidationError as error:
        key = key_of(str(error))
        raise BadPolicy(f"settings: {error}{_whose(key, environment, file)}", key=key) from None
    _check(settings, lambda key: _whose(key, environment, file))
    return _without_password_in_url(settings)


def _check(settings: Settings, whose: Callable[[str], str]) -> None:
    """Raise `BadPolicy` for what no type tells; *whose* says where the value of a key came from."""
    if settings.rules_written not in codec.RULES_WRITTEN:
        allowed = ", ".join(codec.RULES_WRITTEN)
        told = f"settings: rules.write must be one of {allowed}, not {settings.rules.write}{whose('rules.write')}"
        raise BadPolicy(told, key="rules.write")
    try:
        settings.layers.check()
    except BadPolicy as error:
        key = f"policy.{error.fields['key']}"
        raise BadPolicy(f"{error}{whose(key)}", **error.fields) from None


def _without_password_in_url(settings: Settings) -> Settings:
    """Return *settings* whose URL can be shown to anybody."""
    url, login = parted(settings.nats.url, settings.nats.login())
    return msgspec.structs.replace(settings, nats=msgspec.structs.replace(settings.nats, url=url, **vars(login)))


def _whose(key: str, environment: Mapping[str, str], file: Path | None) -> str:
    """Return the setting in which the mistake at *key* is to be mended, as the end of a sentence."""
    wanted = PREFIX + key.upper().replace(".", "__")
    names = [name for name in sorted(environment) if name == wanted or name.startswith(f"{wanted}__")]
    if names:
        return f"; correct or unset {', '.join(names)} in the environment"
    return f"; correct {file or FILE_NAME}"


def _from_file(file: Path | None) -> dict[str, Any]:
    path = file or Path(FILE_NAME)
    if file is None and not path.exists():
        return {}
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadPolicy(f"settings file {in_words(error)}", key=str(path)) from None
    except ValueError as error:
        raise BadPolicy(f"settings file {path}: {error}", key=str(path)) from None
    nats = found.get("nats")
    if isinstance(nats, dict) and "@" in str(nats.get("url", "")):
        raise BadPolicy(f"settings file {path}: nats.url names a user; {NO_SECRET_IN_URL}", key="nats.url")
    for section, key in SECRETS:
        if isinstance(found.get(section), dict) and key in found[section]:
            named = f"{PREFIX}{section.upper()}__{key.upper()}"
            told = f"settings file {path}: {section}.{key} is a secret; set {named} or {named}_FILE instead"
            raise BadPolicy(told, key=f"{section}.{key}")
    return found


def _from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for name, value in sorted(environment.items()):
        if not name.startswith(PREFIX) or not value or name == LOG_LEVEL:
            continue
        path = name.removeprefix(PREFIX).lower().split("__")
        if path[-1].endswith("_file") and (path[0], path[-1].removesuffix("_file")) in SECRETS:
            path[-1] = path[-1].removesuffix("_file")
            try:
                value = Path(value).read_text(encoding="utf-8").strip()
            except OSError as error:
                raise BadPolicy(f"{name}: {in_words(error)}", key=name) from None
        nested: Any = value.split(",") if path == ["locked"] else value
        for step in reversed(path):
            nested = {step: nested}
        _merge_into(out, nested)
    return out


def _conventional(merged: dict[str, Any], environment: Mapping[str, str]) -> None:
    """Take the names that the packages themselves use, where ours are not set."""
    llm = merged.setdefault("llm", {})
    if not isinstance(llm, dict):
        return  # refused with all other mistakes
    llm.setdefault("api_key", environment.get("OPENAI_API_KEY", ""))
    llm.setdefault("base_url", environment.get("OPENAI_BASE_URL", ""))


def _merge_into(base: dict[str, Any], over: Mapping[str, Any]) -> None:
    for key, value in over.items():
        if isinstance(value, Mapping):
            below = base.setdefault(key, {})
            if not isinstance(below, dict):
                raise BadPolicy(f"settings: {key} is a section, not {below!r:.40}", key=key)
            _merge_into(below, value)
        elif value is not None:
            base[key] = value
