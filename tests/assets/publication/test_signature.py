"""A signed folder verifies with the public key alone, and no alteration of it does."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from cryptography.hazmat.primitives.asymmetric.ed448 import Ed448PrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from assets.release.signature import (
    SignedFolder,
    VerificationError,
    altered_files,
    checksums,
    fingerprint,
    identity,
    pem,
    public_key,
    read_public_key,
    sign,
    signed_identity,
    verify,
)
from orchestration.cli import main
from resources.custody import Custody
from tests.permissions import obeying_modes

CERTIFICATE = {
    "dataset": {"name": "village"},
    "release": {"name": "counties"},
    "edition": {"number": 2},
    "randomness": {"draw_id": "d" * 64},
    "ledger": {"sequence": 3, "entry_hash": "e" * 64},
}


@pytest.fixture
def custody(tmp_path: Path) -> Custody:
    return Custody(folder=str(tmp_path / "custody"), variable="STIRRED_TEST_MASTER_KEY")


@pytest.fixture
def folder(tmp_path: Path, custody: Custody) -> Path:
    folder = tmp_path / "counties"
    (folder / "inner").mkdir(parents=True)
    (folder / "table.csv").write_text("county,count\nAvon,3\n")
    (folder / "inner" / "notes.txt").write_text("notes")
    (folder / "certificate.json").write_text(json.dumps(CERTIFICATE))
    sign(folder, custody)
    return folder


def verified(folder: Path, key: Path) -> Result:
    """The output of `stirred verify`."""
    return CliRunner().invoke(main, ["verify", str(folder), "--key", str(key)])


@pytest.fixture
def key_file(tmp_path: Path, custody: Custody) -> Path:
    path = tmp_path / "public_key.pem"
    path.write_bytes(pem(public_key(custody)))
    return path


FORGING = os.fsdecode(b"x\nIntact, and signed with the key of somebody\x1b[2K\xff")
"""A file name that would add a line to the output, delete one, or cannot be written in UTF-8."""


def test_no_name_of_a_file_forges_what_is_said(folder: Path, key_file: Path) -> None:
    (folder / FORGING).write_text("")
    (folder / "editions" / FORGING).mkdir(parents=True)
    shutil.copy(folder / "SHA256SUMS", folder / "editions" / FORGING)
    shutil.copy(folder / "SHA256SUMS.sig", folder / "editions" / FORGING)
    found = verified(folder, key_file)
    assert (found.exit_code, found.stdout) == (1, "")
    lines = found.stderr.splitlines()
    assert all(line.startswith(f"{folder}: ") for line in lines)
    assert any("x Intact, and signed with the key of somebody" in line for line in lines)
    found.stderr.encode()


def test_a_signed_folder_verifies_and_says_what_it_is(folder: Path, key_file: Path, custody: Custody) -> None:
    assert altered_files(folder, read_public_key(key_file)) == []
    found = verified(folder, key_file)
    assert found.exit_code == 0
    said = found.stdout
    assert "village/counties, edition 2, ledger entry 3" in said
    assert fingerprint(public_key(custody)) in said


def test_a_certificate_counts_only_as_it_was_signed_with_this_key(folder: Path, custody: Custody) -> None:
    key = public_key(custody)
    assert signed_identity(folder, key) == identity(folder)
    assert signed_identity(folder, Ed25519PrivateKey.generate().public_key()) is None
    (folder / "table.csv").unlink()
    assert signed_identity(folder, key), "other files are not looked at"
    (folder / "certificate.json").write_text(json.dumps(CERTIFICATE | {"release": {"name": "other"}}))
    assert signed_identity(folder, key) is None
    (folder / "SHA256SUMS").unlink()
    assert signed_identity(folder, key) is None
    os.mkfifo(folder / "SHA256SUMS")
    assert signed_identity(folder, key) is None, "a reader would wait for ever"


def test_signing_again_gives_the_same_bytes(folder: Path, custody: Custody) -> None:
    before = (folder / "SHA256SUMS.sig").read_bytes()
    sign(folder, custody)
    assert (folder / "SHA256SUMS.sig").read_bytes() == before
    assert len(before) == 64


def _other_sums(folder: Path) -> None:
    (folder / "table.csv").write_text("county,count\nAvon,4\n")
    (folder / "SHA256SUMS").write_bytes(checksums(folder))


def _linked(folder: Path) -> None:
    """The same content now, and any other content later, as the attacker likes."""
    (folder / "table.csv").rename(folder.parent / "table.csv")
    (folder / "table.csv").symlink_to(folder.parent / "table.csv")


def _signed_by_somebody_else(folder: Path) -> None:
    (folder / "table.csv").write_text("county,count\nAvon,4\n")
    sign(folder, Custody(folder=str(folder.parent / "his custody"), variable="STIRRED_TEST_MASTER_KEY"))


ALTERATIONS: dict[str, tuple[Callable[[Path], object], str]] = {
    "one byte of a file": (lambda folder: (folder / "table.csv").write_text("county,count\nAvon,4\n"), "was altered"),
    "a file in a folder": (lambda folder: (folder / "inner" / "notes.txt").write_text("note"), "inner/notes.txt was"),
    "a file and its checksum": (_other_sums, "SHA256SUMS was altered"),
    "signed by somebody else": (_signed_by_somebody_else, "was not signed with the key"),
    "a file less": (lambda folder: (folder / "table.csv").unlink(), "table.csv is missing"),
    "a file more": (lambda folder: (folder / "more.csv").write_text(""), "more.csv is not part"),
    "a hidden file more": (lambda folder: (folder / ".more").write_text(""), ".more is not part"),
    "an empty folder more": (lambda folder: (folder / "more").mkdir(), "more is not part"),
    "a broken link more": (lambda folder: (folder / "more").symlink_to("nowhere"), "more is not part"),
    "a linked folder more": (lambda folder: (folder / "more").symlink_to(folder / "inner"), "more is not part"),
    "a pipe more": (lambda folder: os.mkfifo(folder / "more"), "more is not part"),
    "a link instead of a file": (_linked, "table.csv was altered"),
    "no checksums": (lambda folder: (folder / "SHA256SUMS").unlink(), "SHA256SUMS is missing"),
    "no signature": (lambda folder: (folder / "SHA256SUMS.sig").unlink(), "SHA256SUMS.sig is missing"),
    "an empty signature": (lambda folder: (folder / "SHA256SUMS.sig").write_bytes(b""), "was not signed"),
    "no folder": (shutil.rmtree, "SHA256SUMS is missing"),
}


@pytest.mark.parametrize("name", ALTERATIONS)
def test_every_alteration_is_found(folder: Path, key_file: Path, name: str) -> None:
    alter, says = ALTERATIONS[name]
    alter(folder)
    assert any(says in problem for problem in altered_files(folder, read_public_key(key_file)))
    found = verified(folder, key_file)
    assert found.exit_code == 1
    assert says in found.stderr


def _edition(folder: Path, number: int, custody: Custody, release: str = "counties") -> Path:
    """An earlier edition, signed on its own."""
    earlier = folder / "editions" / str(number)
    earlier.mkdir(parents=True)
    record = CERTIFICATE | {"release": {"name": release}, "edition": {"number": number}}
    (earlier / "certificate.json").write_text(json.dumps(record))
    sign(earlier, custody)
    return earlier


def test_each_edition_verifies_on_its_own_and_all_of_them_together(
    folder: Path, key_file: Path, custody: Custody
) -> None:
    before = (folder / "SHA256SUMS").read_bytes()
    earlier = _edition(folder, 1, custody)
    sign(folder, custody)
    assert (folder / "SHA256SUMS").read_bytes() == before, "the checksums do not cover earlier editions"
    found = verified(folder, key_file)
    assert found.exit_code == 0
    said = found.stdout
    assert "edition 2" in said
    assert "edition 1" in said
    assert verified(earlier, key_file).exit_code == 0


IN_EDITIONS: dict[str, tuple[Callable[[Path, Custody], object], str]] = {
    "altered": (lambda editions, _: (editions / "1" / "certificate.json").write_text("{}"), "editions/1: certificate"),
    "under another number": (lambda editions, _: (editions / "1").rename(editions / "3"), "editions/3: is signed, but"),
    "of another release": (
        lambda editions, custody: _edition(editions.parent, 4, custody, "other"),
        "editions/4: is signed, but is village/other",
    ),
    "a file more": (lambda editions, _: (editions / "more.csv").write_text(""), "editions/more.csv: "),
    "editions of an edition": (
        lambda editions, _: (editions / "1" / "editions").mkdir(),
        "1: editions is not",
    ),
    "a link to editions": (
        lambda editions, _: (editions.rename(editions.parent.parent / "x"), editions.symlink_to("../x")),
        "editions is not part",
    ),
}


@pytest.mark.parametrize("name", IN_EDITIONS)
def test_every_alteration_of_an_earlier_edition_is_found(
    folder: Path, key_file: Path, custody: Custody, name: str
) -> None:
    _edition(folder, 1, custody)
    alter, says = IN_EDITIONS[name]
    alter(folder / "editions", custody)
    found = verified(folder, key_file)
    assert found.exit_code == 1
    assert says in found.stderr


def test_what_cannot_be_read_is_named(folder: Path, key_file: Path, custody: Custody) -> None:
    """Fails for: an error that ends the verification of everything else; and a folder that counts as empty, or
    as no editions, because it cannot be listed."""
    key = read_public_key(key_file)

    def closed(path: Path, mode: int = 0) -> list[str]:
        path.chmod(mode)
        found = obeying_modes(lambda: verify(folder, key)[1])
        path.chmod(0o755)
        return found

    for name in ("table.csv", "inner", "inner/notes.txt"):
        assert closed(folder / name) == [f"{name} cannot be read: Permission denied"]
    (folder / "more").mkdir()
    assert closed(folder / "more") == ["more cannot be read: Permission denied"]
    (folder / "more").rmdir()
    assert closed(folder, 0o600) == ["SHA256SUMS cannot be read: Permission denied"]
    shutil.copytree(folder, folder / "editions" / "2")
    assert closed(folder / "editions") == ["editions cannot be read: Permission denied"]
    assert closed(folder / "editions", 0o600) == ["editions/2 cannot be read: Permission denied"]
    assert closed(folder / "editions" / "2") == ["editions/2: SHA256SUMS cannot be read: Permission denied"]
    assert obeying_modes(lambda: verify(folder, key)[1]) == []


def test_a_file_of_a_terabyte_is_not_read_to_its_end(folder: Path, key_file: Path, custody: Custody) -> None:
    """Such a file costs its maker nothing, and a program that hashes it minutes, or all memory."""
    listed = {"resources": [{"path": "table.csv", "bytes": (folder / "table.csv").stat().st_size}]}
    (folder / "datapackage.json").write_text(json.dumps(listed))
    sign(folder, custody)
    key, kept = read_public_key(key_file), {path: path.read_bytes() for path in folder.rglob("*.*")}
    assert altered_files(folder, key) == []
    for name, told in {
        "table.csv": ["table.csv was altered"],
        "inner/notes.txt": ["inner/notes.txt has 1,099,511,627,776 bytes, and datapackage.json lists no such file"],
        "certificate.json": ["certificate.json has 1,099,511,627,776 bytes, and datapackage.json lists no such file"],
        "SHA256SUMS.sig": [f"SHA256SUMS was altered, or was not signed with the key {fingerprint(key)}"],
    }.items():
        os.truncate(folder / name, 2**40)
        assert altered_files(folder, key) == told
        assert verified(folder, key_file).exit_code == 1
        with pytest.raises(VerificationError):
            SignedFolder.open(folder, key).read(name)
        (folder / name).write_bytes(kept[folder / name])
    for name in ("datapackage.json", "table.csv"):
        os.truncate(folder / name, 2**40)
    assert len(altered_files(folder, key)) == 2
    os.truncate(key_file, 2**40)
    assert verified(folder, key_file).exit_code == 1


def test_every_byte_of_the_signature_counts(folder: Path, key_file: Path) -> None:
    key, path = read_public_key(key_file), folder / "SHA256SUMS.sig"
    genuine = path.read_bytes()
    for position in range(len(genuine)):
        path.write_bytes(genuine[:position] + bytes([genuine[position] ^ 1]) + genuine[position + 1 :])
        assert altered_files(folder, key)


@pytest.mark.parametrize(
    "content",
    [
        None,
        b"",
        b"-----BEGIN PUBLIC KEY-----\n",
        Ed448PrivateKey.generate().public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
    ],
    ids=["no file", "empty", "half", "another kind of key"],
)
def test_what_is_not_a_public_key_is_refused(folder: Path, tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "given.pem"
    if content is not None:
        path.write_bytes(content)
    found = verified(folder, path)
    assert found.exit_code == 1
    assert "given.pem" in found.stderr


def test_another_key_verifies_nothing(folder: Path) -> None:
    assert altered_files(folder, Ed25519PrivateKey.generate().public_key())


def test_a_folder_without_a_certificate_says_so(folder: Path, custody: Custody) -> None:
    (folder / "certificate.json").write_text("{}")
    sign(folder, custody)
    assert altered_files(folder, public_key(custody)) == []
    with pytest.raises(VerificationError, match="is not a certificate"):
        identity(folder)


@pytest.mark.skipif(not shutil.which("openssl"), reason="needs OpenSSL")
def test_openssl_and_sha256sum_verify_it_too(folder: Path, key_file: Path, custody: Custody) -> None:
    """These are the commands in docs/how-to/verify.md. The fingerprint is the certificate's."""
    verify = ["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", str(key_file), "-rawin"]
    verify += ["-in", "SHA256SUMS", "-sigfile", "SHA256SUMS.sig"]
    assert subprocess.run(verify, cwd=folder, check=False, capture_output=True).returncode == 0
    assert subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=folder, check=False).returncode == 0
    der = ["openssl", "pkey", "-pubin", "-in", str(key_file), "-outform", "DER"]
    shown = subprocess.run(["sha256sum"], input=subprocess.check_output(der), capture_output=True, check=True).stdout
    assert shown.split()[0].decode() == fingerprint(public_key(custody))
    with (folder / "SHA256SUMS").open("a") as sums:
        sums.write("\n")
    assert subprocess.run(verify, cwd=folder, check=False, capture_output=True).returncode != 0
