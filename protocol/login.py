"""Login: as whom somebody comes to NATS, and how nobody else listens.

Each field is a setting of the service (`nats.ca_file`, `JETTISON_NATS__CA_FILE`) and an argument of `Client.connect`.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict, TypeVar
from urllib.parse import unquote, urlsplit

from .arguments import told
from .errors import Rejected
from .ids import PLAIN_LETTERS

T = TypeVar("T")

INBOX = "_INBOX"
"""NATS' own prefix of inboxes; a user who is named has those below it and its name (`infra/nats/rights.conf`)."""

ENCRYPTED_SCHEMES = ("tls", "wss")


class LoginArguments(TypedDict, total=False):
    """The fields of a `Login`, as arguments of a function."""

    user: str
    password: str
    token: str
    nkey_file: str | Path
    creds_file: str | Path
    ca_file: str | Path
    cert_file: str | Path
    key_file: str | Path
    tls_first: bool
    inbox_prefix: str


@dataclass(frozen=True, kw_only=True)
class Login:
    """A user's name with its password, a token, an NKey's seed or a `.creds` file; and what TLS needs."""

    user: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    nkey_file: str | Path = ""
    """Holds the seed of an NKey, in a line."""
    creds_file: str | Path = ""
    """Holds a JWT and its seed, as `nsc` writes it; read again at each connection."""
    ca_file: str | Path = ""
    """Certificates of those who may vouch for the server; without it the machine's own."""
    cert_file: str | Path = ""
    key_file: str | Path = ""
    """The client's certificate and its key, where the server wants one."""
    tls_first: bool = False
    """Begin with TLS, before the server says a word (`handshake_first` of its configuration)."""
    inbox_prefix: str = ""
    """Where answers go; without it `_INBOX.` and the user's name."""

    @property
    def who(self) -> str:
        """Return the user's name, for a sentence; never a secret."""
        if self.creds_file:
            return f"the user of {self.creds_file}"
        if self.nkey_file:
            return f"the NKey of {self.nkey_file}"
        if self.user:
            return f"user {self.user}"
        return "the token that was given" if self.token else "nobody: no user is set"

    @property
    def names_somebody(self) -> bool:
        """Tell whether a user, a token, an NKey or credentials are given."""
        return bool(self.creds_file or self.nkey_file or self.user or self.token)

    @property
    def inbox(self) -> str:
        """Return the prefix of all inboxes."""
        return self.inbox_prefix or (f"{INBOX}.{self.user}" if PLAIN_LETTERS.fullmatch(self.user) else INBOX)

    def encrypts(self, url: str) -> bool:
        """Tell whether not a word may be said in plain text."""
        given = self.ca_file or self.cert_file or self.tls_first
        return bool(given) or any(one.partition("://")[0] in ENCRYPTED_SCHEMES for one in url.split(","))

    def options(self, url: str) -> dict[str, Any]:
        """Return the options of nats-py. Raises `Rejected` for a file that cannot be used; says which setting it is."""
        options: dict[str, Any] = {"inbox_prefix": self.inbox}
        options |= {"user": self.user, "password": self.password} if self.user else {}
        options |= {"token": self.token} if self.token else {}
        if self.nkey_file:
            options["nkeys_seed_str"] = seed = _read("nkey_file", self.nkey_file).strip()
            _used("nkey_file", self.nkey_file, lambda: _nkeys().from_seed(bytearray(seed, "ascii")))
        if self.creds_file:
            if "BEGIN NATS USER JWT" not in _read("creds_file", self.creds_file):
                raise _unusable("creds_file", self.creds_file, "it holds no user's JWT")
            options["user_credentials"] = str(self.creds_file)
            _nkeys()
        if self.encrypts(url):
            options |= {"tls": self._context(), "tls_handshake_first": self.tls_first}
        return options

    def _context(self) -> ssl.SSLContext:
        if self.ca_file:
            _read("ca_file", self.ca_file)
        where = str(self.ca_file) or None
        context = _used("ca_file", self.ca_file, lambda: ssl.create_default_context(cafile=where))
        if self.cert_file:
            _read("cert_file", self.cert_file)
            key = str(self.key_file) or None
            # without a password of its own OpenSSL would ask for one at the terminal
            _used("cert_file", self.cert_file, lambda: context.load_cert_chain(str(self.cert_file), key, password=str))
        return context


SCHEMES = ("nats", "tls", "ws", "wss")


def checked_url(url: str) -> str:
    """Return *url*, of one server or of several. Raises `Rejected` for what cannot be one."""
    wanted = "connect takes the URL of NATS such as nats://127.0.0.1:4222, of several servers with commas between"
    if not isinstance(url, str):
        raise Rejected(f"{wanted}, not {told(url)}", argument="url")
    for one in url.split(","):
        try:
            # with a password in it, it is quoted nowhere
            parts = urlsplit(one.strip() if "://" in one else f"nats://{one.strip()}")
            usable = parts.scheme in SCHEMES and bool(parts.hostname) and parts.port != 0
        except ValueError:
            usable = False
        if not usable:
            raise Rejected(f"{wanted}; this is none: it has no host, no port that is a number, or is of another kind")
    return url


def login_of(given: Mapping[str, Any]) -> Login:
    """Return the login of the arguments that `connect` was *given*. Raises `Rejected` that names the wrong one."""
    for name, value in given.items():
        if name not in LoginArguments.__annotations__:
            known = ", ".join(LoginArguments.__annotations__)
            raise Rejected(f"connect has no argument {name}; as whom one comes: {known}", argument=name)
        if name == "tls_first":
            wrong = "" if isinstance(value, bool) else "True or False"
        elif name.endswith("_file"):
            wrong = "" if isinstance(value, (str, Path)) else "the path of a file"
        else:
            wrong = "" if isinstance(value, str) else "a text"
        if wrong:
            raise Rejected(f"{name} is {wrong}, not an object of the type {type(value).__name__}", argument=name)
    return Login(**given)


def parted(url: str, login: Login) -> tuple[str, Login]:
    """Return *url* without a user and password in it, and *login* with them where it names nobody itself."""
    servers, found = [], login
    for one in url.split(","):
        scheme, separator, rest = one.strip().rpartition("://")
        before, _, host = rest.rpartition("@")
        servers.append(f"{scheme}{separator}{host}")
        if before and found == login and not (login.user or login.token):
            parts = urlsplit(f"nats://{rest}")
            name, password = unquote(parts.username or ""), unquote(parts.password or "")
            more = {"user": name, "password": password} if parts.password is not None else {"token": name}
            found = Login(**{**vars(login), **more})
    return ",".join(servers), found


def _used(setting: str, path: str | Path, use: Callable[[], T]) -> T:
    try:
        return use()
    except Rejected:
        raise
    except Exception as error:  # of nkeys' own kinds too, which are not imported unless they are needed
        raise _unusable(setting, path, getattr(error, "reason", None) or type(error).__name__) from None


def _read(setting: str, path: str | Path) -> str:
    return _used(setting, path, lambda: Path(path).read_text(encoding="ascii"))


def _unusable(setting: str, path: str | Path, why: str) -> Rejected:
    named = f"{setting} (JETTISON_NATS__{setting.upper()})"
    return Rejected(f"{named}: {path} cannot be used: {why}", setting=setting)


def _nkeys() -> Any:
    try:
        import nkeys  # pyright: ignore[reportMissingImports]  # an extra
    except ImportError:
        raise Rejected("NKeys need a package more: pip install 'jettison-client[nkeys]'") from None
    return nkeys
