"""A time stamp authority on this machine: `openssl ts` behind a web server, with its own certificates."""

import datetime
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

Answer = Callable[[bytes], bytes | int]

HOUR = datetime.timedelta(hours=1)
needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="the authority needs the program openssl")


@dataclass
class Authority:
    """A running authority.

    Attributes:
        address: its address.
        root: the file of its root certificate.
        queries: the queries it received.
        answer: its answer to a query, or the status of a page with a secret.
    """

    address: str
    root: Path
    answer: Answer
    queries: list[bytes] = field(default_factory=list)


SECRET = "planted-by-the-server"


def certify(folder: Path, begins: datetime.timedelta = -HOUR, ends: datetime.timedelta = HOUR) -> Path:
    """Make a root and the authority that it certifies from one time to another from now; return the root's file."""
    folder.mkdir()
    now, root, key = datetime.datetime.now(datetime.UTC), *(ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    purpose = x509.ExtendedKeyUsage([x509.ExtendedKeyUsageOID.TIME_STAMPING])
    office: x509.ExtensionType = x509.BasicConstraints(ca=True, path_length=0)
    # The last certificate is not certified by the root, and claims to be the authority's. DER sorts it behind the
    # authority's.
    for name, words, serial, its_key, signer, extension, span in (
        ("root.pem", "Office of Weights", 1, root, root, office, (-9 * HOUR, 9 * HOUR)),
        ("signer.pem", "Clock of the Office", 2, key, root, purpose, (begins, ends)),
        ("alike.pem", "Another clock of another office", 2, key, key, purpose, (-HOUR, HOUR)),
    ):
        certificate = (
            x509.CertificateBuilder(_name("Office of Weights"), _name(words), its_key.public_key(), serial)
            .not_valid_before(now + span[0])
            .not_valid_after(now + span[1])
            .add_extension(extension, critical=True)
            .sign(signer, SHA256())
        )
        (folder / name).write_bytes(certificate.public_bytes(Encoding.PEM))
    (folder / "key.pem").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    (folder / "ts.cnf").write_text(
        f"[tsa]\ndefault_tsa = one\n[one]\nserial = {folder}/serial\nsigner_digest = sha256\ndefault_policy = 1.2.3.4\n"
        "digests = sha256, sha512\ness_cert_id_alg = sha256\n"
    )
    return folder / "root.pem"


def _name(words: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, words)])


def stamp(folder: Path, query: bytes, *options: str) -> bytes:
    """The answer of the authority in a folder."""
    (folder / "query").write_bytes(query)
    given = ["-config", "ts.cnf", "-queryfile", "query", "-signer", "signer.pem", "-inkey", "key.pem", *options]
    done = subprocess.run(["openssl", "ts", "-reply", *given], cwd=folder, check=True, capture_output=True)
    return done.stdout


@contextmanager
def time_authority(folder: Path) -> Iterator[Authority]:
    root = certify(folder)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            query = self.rfile.read(int(self.headers["Content-Length"]))
            authority.queries.append(query)
            answer = authority.answer(query)
            self.send_response(answer if isinstance(answer, int) else 200, SECRET)
            self.end_headers()
            self.wfile.write(SECRET.encode() if isinstance(answer, int) else answer)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        authority = Authority(f"http://127.0.0.1:{server.server_port}/tsr", root, partial(stamp, folder))
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        yield authority
        server.shutdown()
