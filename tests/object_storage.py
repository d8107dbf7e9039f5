"""An S3 server for tests: SeaweedFS, by default with one bucket and one key."""

import contextlib
import datetime
import ipaddress
import json
import socket
import ssl
import subprocess
import sysconfig
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

SECRET = "planted-secret-of-s3"
WEED = Path(sysconfig.get_path("scripts")) / "weed"


@dataclass(frozen=True)
class ObjectStorage:
    """A running server.

    Attributes:
        address: its address.
        environment: the variables by which DuckDB knows the key.
        bucket: the bucket.
        secrets: the texts that no message may show.
    """

    address: str
    environment: dict[str, str]
    bucket: str = "lake"
    secrets: tuple[str, ...] = field(default=(SECRET,))
    restart: Callable[[float], None] = field(default=lambda seconds: None, repr=False)
    """Ends the server, and starts it again after some seconds."""


@contextlib.contextmanager
def object_storage(
    folder: Path, buckets: Sequence[str] = ("lake",), identities: str = "", authority: Path | None = None
) -> Iterator[ObjectStorage]:
    """Start a server in a folder, and end it.

    Args:
        folder: the folder, which is made.
        buckets: the buckets.
        identities: the rights of each identity, in SeaweedFS's format, unless one key has all rights.
        authority: the file that gets the certificate of an authority, which signs the server's; None for a server
            without TLS.

    Raises:
        TimeoutError: if it does not start within a minute.
    """
    folder.mkdir()
    rights = {
        "credentials": [{"accessKey": "AKTEST", "secretKey": SECRET}],
        "actions": ["Admin", "Read", "Write", "List"],
    }
    (folder / "rights.json").write_text(identities or json.dumps({"identities": [{"name": "stirred", **rights}]}))
    (folder / "data").mkdir()
    s3, master, volume, filer = (storage_port() for _ in range(4))
    command = [
        *(str(WEED), "-logtostderr=true", "server", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-dir={folder / 'data'}"),
        *("-s3", f"-s3.config={folder / 'rights.json'}", f"-s3.port={s3}", f"-master.port={master}"),
        *(
            f"-volume.port={volume}",
            f"-filer.port={filer}",
            "-volume.max=20",
            "-s3.port.iceberg=0",
            "-s3.port.lance=0",
            "-master.volumeSizeLimitMB=64",
        ),
    ]
    trust = None
    if authority:
        certify(authority, folder / "server.pem")
        command += [f"-s3.cert.file={folder / 'server.pem'}", f"-s3.key.file={folder / 'server.pem'}"]
        trust = ssl.create_default_context(cafile=authority)
    with (folder / "log").open("w") as log:
        address = f"http{'s' if authority else ''}://127.0.0.1:{s3}"
        servers = [subprocess.Popen(command, stdout=log, stderr=log)]

        def restart(seconds: float) -> None:
            servers[-1].terminate()
            servers[-1].wait(60)
            time.sleep(seconds)
            servers.append(subprocess.Popen(command, stdout=log, stderr=log))
            _wait(address, trust)

        try:
            _wait(address, trust)
            subprocess.run(
                [str(WEED), "shell", f"-master=127.0.0.1:{master}"],
                input="".join(f"s3.bucket.create -name {bucket}\n" for bucket in buckets),
                text=True,
                check=True,
                capture_output=True,
                timeout=600,
            )
            keys = {"AWS_ACCESS_KEY_ID": "AKTEST", "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_DEFAULT_REGION": "us-east-1"}
            yield ObjectStorage(address, keys, restart=restart)
        finally:
            servers[-1].kill()
            servers[-1].wait(60)


def storage_port() -> int:
    """A free port whose number plus 10,000, which SeaweedFS uses too, is a port."""
    while True:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            number = int(free.getsockname()[1])
        if number < 50_000:
            return number


def certify(authority: Path, server: Path) -> None:
    """Make an authority, and a certificate of 127.0.0.1 that it signs, in a file with its key. They last an hour."""
    now = datetime.datetime.now(datetime.UTC)
    names = [x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)]) for name in ("office", "storage")]
    keys = [ec.generate_private_key(ec.SECP256R1()) for _ in names]
    extensions: list[x509.ExtensionType] = [
        x509.BasicConstraints(ca=True, path_length=0),
        x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]),
    ]
    for path, name, key, extension in zip((authority, server), names, keys, extensions, strict=True):
        certificate = (
            x509.CertificateBuilder(names[0], name, key.public_key(), x509.random_serial_number())
            .not_valid_before(now)
            .not_valid_after(now + datetime.timedelta(hours=1))
            .add_extension(extension, critical=True)
            .sign(keys[0], SHA256())
        )
        path.write_bytes(certificate.public_bytes(Encoding.PEM))
    with server.open("ab") as file:
        file.write(keys[1].private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))


def _wait(address: str, trust: ssl.SSLContext | None) -> None:
    deadline = time.monotonic() + 600
    while time.monotonic() < deadline:
        try:
            urllib.request.urlopen(address, timeout=5, context=trust)
        except urllib.error.HTTPError:
            # It answers, and refuses requests without a key.
            return
        except OSError:
            time.sleep(0.2)
    raise TimeoutError(f"no S3 server at {address}")
