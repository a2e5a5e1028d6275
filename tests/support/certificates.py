"""A certificate authority for tests: real certificates, made on the spot."""

from __future__ import annotations

import datetime as dt
import ipaddress
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

if TYPE_CHECKING:
    from pathlib import Path

DAY = dt.timedelta(days=1)


@dataclass(frozen=True)
class Issued:
    """The PEM files of a certificate and its key."""

    cert_file: Path
    key_file: Path

    def server_context(self, *, client_ca: Path | None = None) -> ssl.SSLContext:
        """Of a server with this certificate; with `client_ca` it insists on a client's certificate."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=client_ca)
        context.load_cert_chain(self.cert_file, self.key_file)
        if client_ca is not None:
            context.verify_mode = ssl.CERT_REQUIRED
        return context


class Authority:
    """Issues certificates; `ca_file` is its own."""

    def __init__(self, folder: Path, name: str = "test authority") -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        cert = (
            self._builder(self._name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.ca_file = folder / "ca.pem"
        self.ca_file.write_bytes(cert.public_bytes(serialization.Encoding.PEM))

    def issue(self, *names: str, expired: bool = False) -> Issued:
        """A certificate for host names and IP addresses."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0])])
        builder = self._builder(subject, key.public_key(), age=3 * DAY, life=DAY if expired else 5 * DAY)
        cert = builder.add_extension(
            x509.SubjectAlternativeName([_general(name) for name in names]), critical=False
        ).sign(self._key, hashes.SHA256())
        stem = f"{names[0]}-{cert.serial_number:x}"
        issued = Issued(self._folder / f"{stem}.pem", self._folder / f"{stem}-key.pem")
        issued.cert_file.write_bytes(cert.public_bytes(serialization.Encoding.PEM))
        issued.key_file.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return issued

    def _builder(
        self,
        subject: x509.Name,
        public_key: ec.EllipticCurvePublicKey,
        *,
        age: dt.timedelta = DAY,
        life: dt.timedelta = 10 * DAY,
    ) -> x509.CertificateBuilder:
        begins = dt.datetime.now(dt.UTC) - age
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(public_key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(begins)
            .not_valid_after(begins + life)
        )


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
