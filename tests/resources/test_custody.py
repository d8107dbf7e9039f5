"""Claims about custody: the permission to read a key, the derivation of keys, and that no key is ever shown."""

import hmac
import json
import os
import shutil
import traceback
from collections import Counter
from hashlib import sha256
from itertools import combinations
from pathlib import Path

import dagster as dg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resources.chain import Anchor, canonicalize
from resources.custody import Custody, CustodyError, CustodyMode, compute_commitment
from tests.depth import examples

MASTER = "0123456789abcdef" * 4
DRAW = "ab" * 32


@pytest.fixture
def custody(tmp_path, monkeypatch):
    monkeypatch.delenv("STIRRED_MASTER_KEY", raising=False)
    return Custody(folder=str(tmp_path / "custody"))


@pytest.fixture
def master(custody):
    """The master key file, made by its first use."""
    custody.version_key()
    return Path(custody.folder) / "master.key"


def refusal(custody):
    with pytest.raises(CustodyError) as caught:
        custody.version_key()
    return str(caught.value)


def mode_of(path):
    return path.stat().st_mode & 0o777


def test_the_first_use_makes_a_private_key_that_stays(custody, master):
    assert mode_of(master) == 0o600
    assert mode_of(master.parent) == 0o700
    assert len(bytes.fromhex(master.read_text())) == 32
    kept = master.read_bytes()
    assert custody.version_key() == Custody(folder=custody.folder).version_key()
    # A process that was just behind another one keeps the other's key and leaves no file of its own.
    custody._make()
    assert master.read_bytes() == kept
    assert {path.name for path in master.parent.iterdir()} == {"master.key", "ledger.anchor"}


def test_two_custodies_share_no_key(custody, tmp_path):
    assert custody.version_key() != Custody(folder=str(tmp_path / "other")).version_key()


def test_keys_are_derived_by_hkdf_of_rfc_5869(custody, monkeypatch):
    monkeypatch.setenv("STIRRED_MASTER_KEY", MASTER)
    extracted = hmac.new(bytes(32), bytes.fromhex(MASTER), sha256).digest()
    expanded = hmac.new(extracted, b"some purpose\x01", sha256).digest()
    assert custody.derive("some purpose") == expanded


def test_a_key_file_is_refused_in_every_mode_that_opens_it_to_others(custody, master):
    expected = custody.version_key()
    for mode in range(0o1000):
        master.chmod(mode)
        if mode & 0o077:
            message = refusal(custody)
            assert str(master) in message
            assert f"{mode:04o}" in message
            assert "closed to all but its owner" in message
        elif mode & 0o400:
            assert custody.version_key() == expected


def test_a_key_file_of_another_user_is_refused(custody, master, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: master.stat().st_uid + 1)
    message = refusal(custody)
    assert str(master) in message
    assert "must belong to the user" in message


@pytest.mark.parametrize("kind", ["link", "dangling link", "folder", "pipe"])
def test_a_key_file_that_is_no_regular_file_is_refused(custody, master, kind):
    good = master.with_name("elsewhere")
    master.rename(good)
    match kind:
        case "link":
            master.symlink_to(good)
        case "dangling link":
            master.symlink_to("nowhere")
        case "folder":
            master.mkdir(mode=0o700)
        case "pipe":
            os.mkfifo(master, 0o600)
    message = refusal(custody)
    assert str(master) in message
    assert "regular file" in message


@pytest.mark.parametrize(
    "content",
    [
        "",
        "\n",
        MASTER[:-1],
        MASTER[:-2],
        MASTER + "0",
        MASTER[:-1] + "g",
        " " + MASTER,
        MASTER + "\n\n",
        "\x00" * 64,
        "٣" * 64,
    ],
)
def test_a_malformed_key_file_is_refused_without_being_quoted(custody, master, content):
    master.write_text(content)
    message = refusal(custody)
    assert str(master) in message
    assert "64 hexadecimal digits" in message
    assert MASTER[:8] not in message


def test_a_key_file_of_random_bytes_is_refused(custody, master):
    master.write_bytes(bytes(range(128, 192)))
    assert "64 hexadecimal digits" in refusal(custody)


def test_a_folder_that_others_may_write_to_is_refused(custody, master):
    for mode in (0o720, 0o702, 0o777, 0o1777):
        master.parent.chmod(mode)
        message = refusal(custody)
        assert custody.folder in message
        assert f"{mode:04o}" in message
    master.parent.chmod(0o755)
    custody.version_key()


def test_a_folder_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "custody").write_text("")
    assert "must be a folder" in refusal(Custody(folder=str(tmp_path / "custody")))


def test_the_environment_goes_before_the_file(custody, master, tmp_path, monkeypatch):
    from_file, kept = custody.version_key(), master.read_text()
    monkeypatch.setenv("STIRRED_MASTER_KEY", MASTER)
    assert "sealed with another custody's key than the one in the variable STIRRED_MASTER_KEY" in refusal(custody)
    other = Custody(folder=str(tmp_path / "other"))
    assert other.version_key() != from_file
    assert [path.name for path in (tmp_path / "other").iterdir()] == ["ledger.anchor"]
    monkeypatch.setenv("STIRRED_MASTER_KEY", MASTER.upper())
    assert other.version_key() == Custody(folder=str(tmp_path / "third")).version_key()
    monkeypatch.setenv("STIRRED_MASTER_KEY", kept.strip())
    assert custody.version_key() == from_file


def test_the_variable_has_the_name_it_is_given(custody, master, tmp_path, monkeypatch):
    monkeypatch.setenv("ANOTHER", MASTER)
    other = Custody(folder=str(tmp_path / "other"), variable="ANOTHER")
    assert other.version_key() != custody.version_key()
    assert not (tmp_path / "other" / "master.key").exists()


@pytest.mark.parametrize("given", ["", MASTER[:-1], MASTER + "0", MASTER + "\n", "0x" + MASTER[2:], "secretsecret" * 6])
def test_a_malformed_variable_is_refused_without_being_quoted(custody, monkeypatch, given):
    monkeypatch.setenv("STIRRED_MASTER_KEY", given)
    message = refusal(custody)
    assert "STIRRED_MASTER_KEY must hold 64 hexadecimal digits" in message
    assert not given or given[:12] not in message
    assert not Path(custody.folder).exists(), "a malformed variable does not fall back on a new key"


@pytest.mark.deep
def test_processes_that_use_a_new_custody_at_once_agree_on_its_keys(tmp_path, processes):
    for turn in range(2):
        place = tmp_path / str(turn)
        keys = processes("race", place, "keys", 6)
        assert len(keys) == 6
        assert len(set(keys)) == 1
        assert len(keys[0]) == 64
        assert not list(place.rglob(".*")), "nothing half made is left"


# Parts that belong together --------------------------------------------------------------------------------

KEY, SEALED, TIE = "custody/master.key", "custody/ledger.anchor", "warehouse/custody.fingerprint"
BOOK, RECORDS = "warehouse/ledger.duckdb", "warehouse/confidential.duckdb"
PARTS_OF_A_DEPLOYMENT = (KEY, SEALED, TIE, BOOK, RECORDS)
EARLIER_ANCHOR = {
    "announced": None,
    "hash": "ab" * 32,
    "mac": "a7e04935fe0ff29a1c015527f168db3549da1a8fafbc356b07d4459c2617c568",
    "sequence": 1,
}
"""The bytes that the first version of Stirred wrote under the master key `MASTER`."""


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def used(folder, *, charged):
    """The custody of a deployment that has read records, and charged a draw or not; databases stand for themselves."""
    custody = Custody(folder=str(folder / "custody"), databases=str(folder / "warehouse"))
    custody.establish()
    for name in (BOOK, RECORDS):
        (folder / name).touch()
    if charged:
        custody.set_anchor(Anchor(2, "ab" * 32))
    return custody


def whole(there, *, charged):
    """Whether the deployment is complete, apart from parts that can be made again without harm."""
    if not {KEY, SEALED} <= there:
        return False
    return BOOK in there if charged else TIE in there or there.isdisjoint({BOOK, RECORDS})


@pytest.mark.parametrize("charged", [True, False], ids=["charged", "not charged"])
@pytest.mark.parametrize("given", [True, False], ids=["key in the environment", "key in a file"])
def test_without_any_of_its_parts_a_deployment_is_new_whole_or_refused(tmp_path, monkeypatch, charged, given):
    """All sets of parts that can be missing. A refusal explains how to restore, and changes and makes no file.

    Wrong programs: make a new key for a lost one, a new anchor for a lost one, or an empty ledger for a lost one.
    """
    monkeypatch.delenv("STIRRED_MASTER_KEY", raising=False)
    if given:
        monkeypatch.setenv("STIRRED_MASTER_KEY", MASTER)
    before = used(tmp_path / "made", charged=charged).version_key()
    parts = PARTS_OF_A_DEPLOYMENT[given:]
    found = Counter()
    for number, missing in enumerate(missing for size in range(6) for missing in combinations(parts, size)):
        place = Path(shutil.copytree(tmp_path / "made", tmp_path / str(number)))
        custody = Custody(folder=str(place / "custody"), databases=str(place / "warehouse"))
        for part in missing:
            (place / part).unlink()
        left, there = contents(place), set(PARTS_OF_A_DEPLOYMENT) - set(missing)
        if whole(there, charged=charged):
            found["whole"] += 1
            assert custody.version_key() == before, missing
            assert custody.anchor() == (Anchor(2, "ab" * 32) if charged else Anchor())
        elif there <= ({KEY} if given else set()):
            found["new"] += 1
            assert (custody.version_key() == before) == given
            assert custody.anchor() == Anchor()
        else:
            found["refused"] += 1
            message = refusal(custody)
            assert all(word in message for word in ("missing", "Nothing was charged", "Restore")), message
            for use in (custody.anchor, lambda: custody.commit(DRAW, CustodyMode.EPHEMERAL)):  # noqa: B023
                with pytest.raises(CustodyError):
                    use()
            assert contents(place) == left, missing
    assert found == {"whole": 4 if charged else 5, "new": 1, "refused": 2 ** len(parts) - (5 if charged else 6)}


@pytest.mark.parametrize("charged", [True, False], ids=["charged", "not charged"])
def test_another_custody_is_refused_wherever_it_comes_from(tmp_path, monkeypatch, charged):
    """Wrong programs: check only the key, or key and anchor without the databases."""
    monkeypatch.delenv("STIRRED_MASTER_KEY", raising=False)
    custody, other = used(tmp_path / "one", charged=charged), used(tmp_path / "other", charged=charged)
    other.version_key()
    keys = {name: (tmp_path / name / KEY).read_bytes() for name in ("one", "other")}
    (tmp_path / "one" / KEY).write_bytes(keys["other"])
    assert "another custody's key than the one in master.key" in refusal(custody)
    (tmp_path / "one" / KEY).write_bytes(keys["one"])
    foreign = Custody(folder=other.folder, databases=custody.databases)
    assert "belong to another custody's key" in refusal(foreign)
    fresh = Custody(folder=str(tmp_path / "fresh"), databases=custody.databases)
    assert "master.key and ledger.anchor are missing" in refusal(fresh)
    assert not (tmp_path / "fresh").exists(), "no key is made for databases that have one"
    custody.version_key()


def test_a_deployment_of_an_earlier_version_goes_on(tmp_path, monkeypatch):
    """It has a key, an anchor of the same form, and no fingerprint."""
    monkeypatch.delenv("STIRRED_MASTER_KEY", raising=False)
    for part in (KEY, BOOK, RECORDS):
        (tmp_path / part).parent.mkdir(exist_ok=True, mode=0o700)
        (tmp_path / part).touch(mode=0o600)
    (tmp_path / KEY).write_text(MASTER)
    (tmp_path / SEALED).write_text(json.dumps(EARLIER_ANCHOR))
    custody = Custody(folder=str(tmp_path / "custody"), databases=str(tmp_path / "warehouse"))
    assert custody.anchor() == Anchor(1, "ab" * 32)
    custody.version_key()
    assert (tmp_path / TIE).exists()


# Draw ids --------------------------------------------------------------------------------------------------

parts = st.dictionaries(
    st.text(max_size=5),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
        max_leaves=8,
    ),
    max_size=4,
)


def strict(value):
    """A value told apart from every other, also where Python calls them equal (True and 1)."""
    if isinstance(value, dict):
        return ("mapping", frozenset((key, strict(part)) for key, part in value.items()))
    if isinstance(value, list):
        return ("list", tuple(map(strict, value)))
    return (type(value).__name__, value)


@settings(max_examples=examples(50))
@given(parts, parts)
def test_two_things_are_written_alike_only_if_they_are_the_same(one, other):
    assert (canonicalize(one) == canonicalize(other)) == (strict(one) == strict(other))


@given(parts)
def test_the_order_of_parts_does_not_matter(one):
    assert canonicalize(dict(reversed(one.items()))) == canonicalize(one)


PARTS = {
    "dataset": "ma1940",
    "release": "half",
    "stage": "swapped",
    "partition": None,
    "mechanism": {"name": "permutation swapping", "swap_rate": "1/2", "match": ["county"]},
    "inputs": ["0" * 64, "1" * 64],
    "version": 1,
}


def test_a_draw_id_follows_from_every_part_and_from_the_custody(custody, tmp_path):
    changed = [
        PARTS | {"dataset": "ma1941"},
        PARTS | {"release": "half "},
        PARTS | {"stage": "Swapped"},
        PARTS | {"partition": "25"},
        PARTS | {"partition": "null"},
        PARTS | {"mechanism": PARTS["mechanism"] | {"swap_rate": "1/3"}},
        PARTS | {"mechanism": PARTS["mechanism"] | {"match": ["county", "tenure"]}},
        PARTS | {"inputs": ["1" * 64, "0" * 64]},
        PARTS | {"inputs": ["0" * 64]},
        PARTS | {"version": 2},
        PARTS | {"version": "1"},
        PARTS | {"version": True},
        {key: part for key, part in PARTS.items() if key != "partition"},
    ]
    names = {custody.draw_id(one) for one in [PARTS, *changed]}
    assert len(names) == 1 + len(changed)
    assert custody.draw_id(dict(reversed(PARTS.items()))) == custody.draw_id(PARTS)
    assert Custody(folder=str(tmp_path / "other")).draw_id(PARTS) not in names
    plain = sha256(canonicalize(PARTS)).hexdigest()
    keyed = hmac.new(custody.version_key(), canonicalize(PARTS), sha256).hexdigest()
    assert not {plain, keyed} & names, "nobody tries a draw id without its own key"


@pytest.mark.parametrize(
    "value", [0.5, 1.0, float("nan"), b"bytes", {1, 2}, (1, 2), Path("x"), {"deep": [{"er": 0.1}]}, {1: "x"}]
)
def test_a_part_that_can_be_written_in_two_ways_is_refused(custody, value):
    with pytest.raises(TypeError):
        custody.draw_id({"part": value})


# Keys of draws ---------------------------------------------------------------------------------------------


def test_escrowed_keys_follow_from_the_draw_and_leave_no_file(custody):
    committed = custody.commit(DRAW, CustodyMode.ESCROWED)
    key = custody.open_key(DRAW, CustodyMode.ESCROWED, committed)
    assert len(key) == 32
    assert compute_commitment(key) == committed
    custody.forget(DRAW)
    assert custody.commit(DRAW, CustodyMode.ESCROWED) == committed
    assert custody.open_key(DRAW, CustodyMode.ESCROWED, committed) == key
    assert custody.commit("cd" * 32, CustodyMode.ESCROWED) != committed
    assert not [path for path in Path(custody.folder).rglob("*.key") if path.name != "master.key"]


def test_a_mode_may_come_as_the_text_of_a_configuration(custody):
    assert custody.commit(DRAW, "escrowed") == custody.commit(DRAW, CustodyMode.ESCROWED)
    with pytest.raises(ValueError, match="forever"):
        custody.commit(DRAW, "forever")


def test_an_ephemeral_key_lives_from_charge_to_settlement(custody):
    with pytest.raises(CustodyError, match="cannot be replayed"):
        custody.open_key(DRAW, CustodyMode.EPHEMERAL, "00" * 32)
    committed = custody.commit(DRAW, CustodyMode.EPHEMERAL)
    file = Path(custody.folder) / "ephemeral" / f"{DRAW}.key"
    assert mode_of(file) == 0o600
    assert mode_of(file.parent) == 0o700
    again = Custody(folder=custody.folder)
    assert again.commit(DRAW, CustodyMode.EPHEMERAL) == committed
    assert compute_commitment(again.open_key(DRAW, CustodyMode.EPHEMERAL, committed)) == committed
    file.with_name(f".{file.name}.0123456789abcdef").hardlink_to(file)  # as a process leaves it that is killed midway
    custody.forget(DRAW)
    custody.forget(DRAW)
    assert not list(file.parent.iterdir())
    with pytest.raises(CustodyError) as caught:
        custody.open_key(DRAW, CustodyMode.EPHEMERAL, committed)
    assert "a release under a new name, with a new charge" in str(caught.value)
    assert custody.commit(DRAW, CustodyMode.EPHEMERAL) != committed, "an ephemeral key does not follow from anything"


@pytest.mark.parametrize("mode", CustodyMode)
def test_a_key_is_opened_only_with_the_commitment_made_to_it(custody, mode):
    """Wrong programs: make no comparison, compare only ephemeral keys, or compare only the first digits."""
    committed = custody.commit(DRAW, mode)
    assert compute_commitment(custody.open_key(DRAW, mode, committed)) == committed
    altered = committed[:-1] + "01"[committed[-1] == "0"]
    for other in ("", "é", committed[:-1], altered, custody.commit("cd" * 32, mode)):
        with pytest.raises(CustodyError, match="not the one that its charge committed to; nothing was drawn"):
            custody.open_key(DRAW, mode, other)


def test_an_ephemeral_key_is_guarded_like_the_master_key(custody):
    committed = custody.commit(DRAW, CustodyMode.EPHEMERAL)
    file = Path(custody.folder) / "ephemeral" / f"{DRAW}.key"
    file.chmod(0o640)
    with pytest.raises(CustodyError, match=r"chmod 600.*0640"):
        custody.commit(DRAW, CustodyMode.EPHEMERAL)
    with pytest.raises(CustodyError, match=r"chmod 600.*0640"):
        custody.open_key(DRAW, CustodyMode.EPHEMERAL, committed)
    file.chmod(0o600)
    # In a folder that others may write to, they could exchange the folder of the key.
    file.parent.parent.chmod(0o777)
    with pytest.raises(CustodyError, match=r"chmod 700.*0777"):
        custody.open_key(DRAW, CustodyMode.EPHEMERAL, committed)


@pytest.mark.parametrize("name", ["", "../master", "AB" * 32, DRAW + "\n", DRAW[:-1], "/etc/passwd"])
@pytest.mark.parametrize("mode", CustodyMode)
def test_a_draw_id_is_no_path(custody, name, mode):
    with pytest.raises(CustodyError, match="64 hexadecimal digits"):
        custody.commit(name, mode)
    with pytest.raises(CustodyError, match="64 hexadecimal digits"):
        custody.open_key(name, mode, "00" * 32)
    with pytest.raises(CustodyError, match="64 hexadecimal digits"):
        custody.forget(name)


def test_a_commitment_is_the_digest_of_the_key():
    assert compute_commitment(b"abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


# Keys are never shown ---------------------------------------------------------------------------------------


def test_no_error_representation_or_dagster_record_shows_a_key(custody, master, capfd):
    draw_id = custody.draw_id(PARTS)
    keys = [bytes.fromhex(master.read_text()), custody.version_key()]
    keys += [custody.open_key(draw_id, mode, custody.commit(draw_id, mode)) for mode in CustodyMode]
    shown = [repr(custody), str(custody), custody.model_dump_json(), str(vars(custody))]

    @dg.asset
    def stage(custody: Custody) -> None:
        custody.open_key(draw_id, CustodyMode.EPHEMERAL, custody.commit(draw_id, CustodyMode.EPHEMERAL))
        raise ValueError(str(custody))

    with dg.DagsterInstance.ephemeral() as instance:
        run = dg.materialize([stage], resources={"custody": custody}, instance=instance, raise_on_error=False)
        shown += [str(record) for record in instance.all_logs(run.run_id)]
        shown += [str(instance.get_run_by_id(run.run_id))]
    files = [master, master.with_name("ephemeral") / f"{draw_id}.key"]
    for file in files:
        whole = file.read_text()
        for damage in (lambda file: file.chmod(0o644), lambda file: file.write_text(file.read_text() + "00")):
            damage(file)
            try:
                custody.commit(draw_id, CustodyMode.EPHEMERAL)
            except CustodyError as error:
                shown += ["".join(traceback.format_exception(error)), repr(error.__context__)]
            file.write_text(whole)
            file.chmod(0o600)
    shown += [*capfd.readouterr()]
    assert len(shown) > 10
    for key in keys:
        for written in (key.hex(), key.hex().upper(), repr(key)[2:-1], str(list(key))[1:-1]):
            assert not any(written in text for text in shown)


def test_an_altered_record_of_editions_refuses_its_own_release_and_no_other(custody, master):
    """Wrong programs: verify all records at once, so that one damaged file stops every publication; or accept any seal
    of a custody, also of another release's record or of another custody."""
    for release in ("first", "second"):
        custody.record_edition("town", release, "1", release, "sums", kept=False)
    folder = master.parent / "publications"
    other, content = (folder / "town__second").read_bytes(), (folder / "town__first").read_bytes()
    sealed = json.loads(content)
    for altered in (other, content[:-1], b"[1.5]", json.dumps(sealed | {"more": 1}).encode()):
        (folder / "town__first").write_bytes(altered)
        for ask in (custody.read_editions, lambda *names: custody.record_edition(*names, "2", "d", "s", kept=False)):
            with pytest.raises(CustodyError, match="town__first was altered; restore it"):
                ask("town", "first")
        custody.record_edition("town", "second", "2", "later", "others", kept=False)
        assert (folder / "town__first").read_bytes() == altered, "the evidence stays"
    assert custody.read_editions("town", "second") == {
        "1": ["second", "sums"],
        "2": ["later", "others"],
        "current": ["later", "others"],
    }
    (folder / "no record").touch()
    assert custody.list_recorded() == [("town", "first"), ("town", "second")]
    for release, kept in {"first": {}, "second": {"1": ["second", ""], "2": ["later", ""]}}.items():
        custody.forget_editions("town", release)
        assert custody.read_editions("town", release) == kept
