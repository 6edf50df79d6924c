"""What a server knows a client by, made for a test: certificates, and the JWTs that `nsc` would make."""

from __future__ import annotations

import base64
import hashlib
import ipaddress
import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import nkeys
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.stack import LOOPBACK


class Authority:
    """A certificate authority of a test's own; what it makes is PEM files in *folder*."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        self._folder, self._name = folder, name
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._cert = self._signed(name, self._key.public_key(), is_authority=True)
        self.file = folder / f"{name}.pem"
        self.file.write_bytes(self._cert.public_bytes(serialization.Encoding.PEM))

    def certificate(self, name: str) -> tuple[Path, Path]:
        """Return the files of a certificate for *name* on loopback, and of its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        cert_file, key_file = self._folder / f"{name}.pem", self._folder / f"{name}.key"
        cert_file.write_bytes(self._signed(name, key.public_key()).public_bytes(serialization.Encoding.PEM))
        plain = serialization.NoEncryption()
        kind = serialization.PrivateFormat.PKCS8
        key_file.write_bytes(key.private_bytes(serialization.Encoding.PEM, kind, plain))
        return cert_file, key_file

    def _signed(self, name: str, public: ec.EllipticCurvePublicKey, *, is_authority: bool = False) -> x509.Certificate:
        now = datetime.now(UTC)
        local = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(LOOPBACK)), x509.DNSName("localhost")])
        return (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
            .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, self._name)]))
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(hours=1))
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
            .add_extension(local, critical=False)
            .sign(self._key, hashes.SHA256())
        )


class Pair:
    """An NKey of a kind: operator, account or user."""

    def __init__(self, kind: int) -> None:
        self.seed = nkeys.encode_seed(os.urandom(32), kind)
        self._pair = nkeys.from_seed(bytearray(self.seed))
        self.public: str = self._pair.public_key.decode()

    def jwt(self, of: Pair, claims: dict[str, Any], *, name: str) -> str:
        """Return a JWT about *of*, signed by this key."""
        body = {"iat": 1_700_000_000, "iss": self.public, "name": name, "sub": of.public, "nats": claims}
        digest = hashlib.new("sha512_256", _json(body)).digest()
        body["jti"] = base64.b32encode(digest).decode().rstrip("=")
        signed = f"{_url_safe(_json({'typ': 'JWT', 'alg': 'ed25519-nkey'}))}.{_url_safe(_json(body))}"
        return f"{signed}.{_url_safe(self._pair.sign(signed.encode()))}"


def with_jwts(folder: Path) -> tuple[str, Path]:
    """Return the configuration of a server that knows users by JWTs, and the `.creds` file of one."""
    operator, user = Pair(nkeys.PREFIX_BYTE_OPERATOR), Pair(nkeys.PREFIX_BYTE_USER)
    account, system = Pair(nkeys.PREFIX_BYTE_ACCOUNT), Pair(nkeys.PREFIX_BYTE_ACCOUNT)
    every = {"subs": -1, "data": -1, "payload": -1}
    limits = every | {"imports": -1, "exports": -1, "wildcards": True, "conn": -1, "leaf": -1}
    limits |= {"mem_storage": -1, "disk_storage": -1, "streams": -1, "consumer": -1}
    of_operator = operator.jwt(operator, {"type": "operator", "version": 2}, name="O")
    of_account = operator.jwt(account, {"type": "account", "version": 2, "limits": limits}, name="A")
    of_system = operator.jwt(system, {"type": "account", "version": 2}, name="SYS")
    of_user = account.jwt(user, {"type": "user", "version": 2, "pub": {}, "sub": {}, **every}, name="U")
    creds = folder / "user.creds"
    creds.write_text(
        f"-----BEGIN NATS USER JWT-----\n{of_user}\n------END NATS USER JWT------\n\n"
        f"-----BEGIN USER NKEY SEED-----\n{user.seed.decode()}\n------END USER NKEY SEED------\n"
    )
    known = f"{account.public}: {of_account}, {system.public}: {of_system}"
    server = f"operator: {of_operator}\nsystem_account: {system.public}\nresolver: MEMORY\n"
    return f"{server}resolver_preload: {{ {known} }}\n", creds


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _url_safe(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).decode().rstrip("=")
