"""TLS to a store: the files that an operator names, and what a failed handshake means."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from openclaw_cache.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

_HOST_MISMATCH: Final = frozenset({62, 64})  # X509_V_ERR_HOSTNAME_MISMATCH, X509_V_ERR_IP_ADDRESS_MISMATCH
_OUT_OF_DATE: Final = frozenset({9, 10})  # X509_V_ERR_CERT_NOT_YET_VALID, X509_V_ERR_CERT_HAS_EXPIRED
_NOT_TLS: Final = frozenset({"WRONG_VERSION_NUMBER", "PACKET_LENGTH_TOO_LONG", "RECORD_LAYER_FAILURE"})


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files: whom we trust, and who we are.

    Without `ca_file` the system's certificate authorities are trusted, with it only those in the file.
    `cert_file` is our client certificate, with its chain; its key may stand in the same file.
    """

    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None

    def __bool__(self) -> bool:
        return any((self.ca_file, self.cert_file, self.key_file))


def client_context(files: TlsFiles | None = None) -> ssl.SSLContext:
    """Make the context of our side: TLS 1.2 or later, certificate and host name of the server verified.

    Reads the files, and the system's certificate authorities (some milliseconds).

    Raises:
        ConfigError: a file cannot be read or is not what it should be; the message names its setting.
    """
    files = files or TlsFiles()
    if files.key_file is not None and files.cert_file is None:
        raise ConfigError("store.key_file: it is the key of a certificate: name store.cert_file too")
    try:
        context = ssl.create_default_context(cafile=files.ca_file)
    except OSError as error:  # SSLError is one
        raise ConfigError(f"store.ca_file: {files.ca_file}: {_why(error)}") from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2  # the default is what a machine's OpenSSL was set to
    if files.cert_file is None:
        return context
    setting, path = "cert_file", files.cert_file
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(path)  # to tell whose fault it is
        if files.key_file is not None:
            setting, path = "key_file", files.key_file
            path.read_bytes()
        # Without a password of ours, OpenSSL would ask for one on the terminal.
        context.load_cert_chain(files.cert_file, files.key_file, password="")
    except OSError as error:
        raise ConfigError(f"store.{setting}: {path}: {_why(error)}") from None
    return context


def _why(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        reason = f" ({error.reason})" if error.reason else ""
        return f"it needs certificates, or the unencrypted key of cert_file, in PEM form{reason}"
    return error.strerror or str(error)


def fault_of(error: ssl.SSLError) -> tuple[str, str] | None:
    """Name the setting that a failed handshake is about and what is wrong; None when waiting may help."""
    if isinstance(error, ssl.SSLCertVerificationError):
        reason = error.verify_message.rstrip(".")
        if error.verify_code in _HOST_MISMATCH:
            return (
                "store.url",
                f"the server's certificate is another one's ({reason}): use a name that it has",
            )
        remedy = "name the file of the authority that signed it"
        if error.verify_code in _OUT_OF_DATE:
            remedy = "renew it on the server"
        return "store.ca_file", f"the server's certificate is not trusted ({reason}): {remedy}"
    reason = error.reason or ""
    if reason in _NOT_TLS:
        return "store.url", "no TLS is spoken there: use the server's TLS port, or redis://"
    if "ALERT" in reason and ("CERTIFICATE" in reason or "UNKNOWN_CA" in reason):
        return "store.cert_file", f"the server does not take our client certificate ({reason})"
    if "ALERT" in reason or "PROTOCOL" in reason:
        return "store.url", f"the server refuses our TLS handshake ({reason})"
    return None
