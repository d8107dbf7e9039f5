"""Attacks: their inputs, the files they can open, and their gain from a publication that holds no information."""

import os
import socket
import time
import tracemalloc
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import psutil
import pytest

from assets.laboratory.attacking import Attacker, AttackError, OwnAttack
from assets.laboratory.attacks import _reconstruct_block, guess_by_margin, link, reconstruct, undo, weigh_swaps
from assets.laboratory.evaluation import (
    ALL,
    ANY_SIZE,
    NONMODAL,
    UNIQUE,
    Measure,
    Truth,
    measure_gain,
    measure_guesses,
    measure_holdout,
    measure_ratios,
    measure_reconstruction,
)
from assets.laboratory.grid import Worlds, choose_targets, keep_frame, remove_each, select
from assets.laboratory.measures import MATCH_RATE
from assets.laboratory.points import Draw, Exact, Point
from assets.laboratory.publication import NONE, Guesses, NamedPersons, Publication, Swaps
from assets.laboratory.records import Tract
from assets.swapping.laboratory import Swapped
from mechanisms.risk.baselines import guess_by_share
from mechanisms.risk.posterior import LaplaceLaw
from mechanisms.risk.tiers import REDISTRICTING, SUMMARY_FILE, Tier
from resources.confinement import find_landlock_version
from tests.docs.test_pages import DOCS, fenced

KEY = bytes(32)


def make_truth(tier: Tier, households: int = 240, blocks: int = 8) -> Truth:
    """A tract whose households are mostly of one race."""
    rng = np.random.default_rng(5)
    household = np.repeat(np.arange(households), rng.integers(1, 6, households))
    race = rng.choice([0, 1, 3, 6, 64], households, p=[0.6, 0.2, 0.1, 0.05, 0.05])
    adult = rng.random(len(household)) < 0.7
    age = np.where(adult, 18, 0) + rng.integers(0, 18, len(adult))
    frame = adult.astype(np.int64) if tier is REDISTRICTING else age
    category = np.where(rng.random(len(household)) < 0.9, race[household], rng.integers(0, 12, len(household)))
    none = np.zeros(households, dtype=np.int64)
    block, groups = rng.integers(0, blocks, households), np.arange(blocks) // 4
    tract, vacant = np.zeros_like(groups), np.arange(blocks) % 3 if tier.of_units else None
    return Truth(Tract(tier, blocks, block, groups, tract, none, household, adult, frame, category, vacant))


def find(measures: Iterable[Measure], subset: str, measure: str) -> float:
    (row,) = (row for row in measures if (row.subset, row.block_size, row.measure) == (subset, ANY_SIZE, measure))
    return row.value


class Blank(Point):
    """A publication that ignores the records: no counts, and shares of the nation."""

    method, parameters = "blank", ""

    def draw(self, tract: Tract, key: bytes) -> Draw:
        totals = np.zeros((tract.blocks, *tract.tier.shape), dtype=np.int64)
        totals[:, 0, :4] = [6000, 2000, 1000, 1000]
        law = LaplaceLaw(1e9)
        published = Publication(tract.tier.name, "blank", "", np.zeros_like(totals), totals, tract.tract, law)
        return Draw(published, np.zeros(0), None)


def test_a_publication_that_ignores_the_records_has_the_precision_of_the_guesser_and_no_gain() -> None:
    """Fails for: an attack whose prior includes the target among the true records of the block; and one that is
    given the modal persons."""
    truth = make_truth(REDISTRICTING)
    publication = Blank().draw(truth.tract, KEY).publication
    guesses = Guesses.of(link(publication, truth.file), len(truth.tract.household), 126)
    shares = np.full(126, 0.5)
    shares[:4] = [6000, 2000, 1000, 1000]
    expected = (shares / shares.sum())[truth.tract.category].mean()
    rows = list(measure_guesses(truth, "link", guesses))
    assert find(rows, ALL, "precision") == pytest.approx(expected)
    over = [find(rows, ALL, f"true category over {least}") for least in (0.5, 0.9)]
    assert over == [(truth.tract.category == 0).mean(), 0], "the first has 59%"
    told = np.where(truth.subsets[NONMODAL][:, None] & (np.arange(126) == 0), 0, guesses.shares)
    told /= told.sum(axis=1, keepdims=True)
    assert find(measure_guesses(truth, "told", replace(guesses, shares=told)), ALL, "precision") > 1.05 * expected
    targets = choose_targets(truth, 40, KEY)
    (worlds,), _ = remove_each(truth, Blank(), KEY, targets)
    without = link(worlds.publication, worlds.persons)
    gains = list(measure_gain(truth, "link", targets, select(guesses, targets), select(without, worlds.places)))
    assert len(gains) == 2
    assert all(row.value == 0 for row in gains)

    def peek(tract: Tract) -> Guesses:
        margins = tract.count().sum(axis=1)[truth.tract.place[targets]]
        return Guesses(margins / margins.sum(axis=1, keepdims=True), np.full(len(targets), NONE))

    worse = [
        row.value
        for person, target in enumerate(targets.tolist())
        for row in measure_gain(
            truth, "peek", targets[[person]], select(peek(truth.tract), np.array([person])),
            select(peek(truth.tract.without(target)), np.array([person])),
        )
    ]  # fmt: skip
    assert np.mean(worse) > 0


def test_worlds_without_targets_are_in_memory_one_at_a_time() -> None:
    truth = make_truth(REDISTRICTING, 400, 200)
    whole = Exact().draw(truth.tract, KEY).publication.counts
    targets = np.arange(40)
    tracemalloc.start()
    (worlds,), none = remove_each(truth, Exact(), KEY, targets)
    assert none == []
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    removed = whole[truth.tract.place[targets]] - worlds.publication.counts
    assert set(removed.sum(axis=1)) <= {2, 4}, "one person, in two tables or in four"
    assert peak < 12 * whole.nbytes


def test_a_person_who_is_left_out_changes_the_swaps_of_two_strata_alone() -> None:
    """Fails for: one random stream for all strata, which a missing person shifts in every later stratum."""
    size = np.repeat([5, 1], 60)
    household = np.repeat(np.arange(120), size)
    category = np.where(size[household] == 1, 7 + household % 2, 0)
    block = np.random.default_rng(1).integers(0, 6, 120)
    adult, frame = np.ones(360, dtype=bool), np.ones(360, dtype=np.int64)
    tract = Tract(
        REDISTRICTING,
        6,
        block,
        np.zeros(6, dtype=np.int64),
        np.zeros(6, dtype=np.int64),
        np.zeros(120, dtype=bool),
        household,
        adult,
        frame,
        category,
    )
    point = Swapped(Fraction(1, 2), ("persons",))
    before, after = (point.draw(one, KEY).publication.counts for one in (tract, tract.without(0)))
    of_singles = REDISTRICTING.tabulate((np.arange(252).reshape(1, 2, 126) % 126 == 7).astype(np.int64))[0] > 0
    of_singles &= REDISTRICTING.tabulate((np.arange(252).reshape(1, 2, 126) % 126 != 7).astype(np.int64))[0] == 0
    assert of_singles.sum() == 2, "P2 and P4 have a cell of persons who are not Hispanic"
    assert np.array_equal(before[:, of_singles], after[:, of_singles])
    assert not np.array_equal(before, after)
    assert not np.array_equal(before[:, of_singles], Exact().draw(tract, KEY).publication.counts[:, of_singles])


@pytest.mark.prove
def test_more_swapping_names_fewer_unique_persons_and_a_little_more_than_the_guesser() -> None:
    truth = make_truth(SUMMARY_FILE, 240, 20)
    accuracy = []
    for point in (Exact(), *(Swapped(Fraction(rate), ("persons",)) for rate in ("1/5", "4/5"))):
        published = point.draw(truth.tract, KEY).publication
        guesses = link(published, truth.file)
        accuracy.append(find(measure_guesses(truth, "link", guesses), UNIQUE, "accuracy"))
        _require_undone(truth, published, guesses)
        if published.swaps is not None:
            _require_aware(truth, published, guesses)
    tract = truth.tract
    guesser = guess_by_share(tract.place, tract.category, 126)[truth.subsets[UNIQUE]].mean()
    assert accuracy[0] > accuracy[1] > max(accuracy[2], guesser)
    assert truth.subsets[UNIQUE].sum() > 20
    targets = choose_targets(truth, 40, KEY)
    gains = {row.subset for row in measure_gain(truth, "link", targets, *[select(guesses, targets)] * 2)}
    assert UNIQUE in gains
    assert not gains & {ALL, NONMODAL}, "unique persons are half of the targets, and fewer of these subsets"
    assert truth.subsets[NONMODAL].sum() > truth.subsets[UNIQUE].sum()


def _require_undone(truth: Truth, published: Publication, linked: Guesses) -> None:
    """Fails for: an attack that looks for swapped persons with replacement, or among the matched persons."""
    found, tract = undo(published, truth.file), truth.tract
    assert found.shares.sum(axis=1) == pytest.approx(1), "swaps stay in the tract, where everybody is found"
    assert np.all(found.shares >= linked.shares - 1e-12)
    given, there = np.zeros(tract.tier.shape), reconstruct(published, certain=False).histograms.sum(axis=0)
    np.add.at(given, tract.frame, found.shares)
    assert given == pytest.approx(there), "each record to one person, in expectation"
    named = linked.shares.sum(axis=1) > 1 - 1e-12
    assert np.allclose(found.shares[named], linked.shares[named])
    for target in (0, 7):
        world = keep_frame(truth, Worlds(published, truth.file, np.array([target])))
        assert set(world.persons.frame) == {tract.frame[target]}
        of_frame = select(undo(published, world.persons), world.places)
        assert np.array_equal(of_frame.shares, found.shares[[target]]), "persons of other frames tell nothing"
    if not named.all():
        shares = [guesses.shares[np.arange(len(tract.category)), tract.category].mean() for guesses in (linked, found)]
        assert shares[1] > shares[0] + 0.05


def _require_aware(truth: Truth, published: Publication, linked: Guesses) -> None:
    """Fails for: an attacker who learns nothing from households, or who takes each person's frame for a household's;
    and probabilities that swaps distort as much as the probabilities of a match."""
    undone = undo(published, truth.file)
    persons, households = (weigh_swaps(published, file) for file in (truth.file, truth.file_with_households))
    right = [find(measure_guesses(truth, "", each), UNIQUE, "accuracy") for each in (undone, persons, households)]
    assert right[2] > max(right[:2]) + 0.01
    over = []
    for guesses in (undone, persons, households):
        named = guesses.shares.argmax(axis=1) == truth.tract.category
        over.append(guesses.shares.max(axis=1).mean() - named.mean())
    assert published.swaps is not None
    if published.swaps.rate > 0.5:
        assert over[0] > 0.1 > 2 * max(over[1:]) > 0, "a match may be with somebody else's record"
    # An attacker who knows that hardly any household moves believes each record of the frame.
    still = weigh_swaps(replace(published, swaps=Swaps(1e-9)), truth.file)
    matched = linked.shares.sum(axis=1) > 1 - 1e-9
    assert np.allclose(still.shares[matched], linked.shares[matched], atol=1e-6)


def test_rare_persons_are_those_whom_the_publication_shows_to_be_rare() -> None:
    """Fails for: a second stir that leaves rare households where they are."""
    assert Swaps(0.25, 0.75, 3).find_stay(np.array([0, 3, 4])).tolist() == [0.25, 0.25, 0.75]
    assert Swaps(0.25).find_stay(np.array([0, 3, 4])).tolist() == [0.75] * 3
    rare = Swapped(Fraction(1, 5), ("persons",), Fraction(9, 10), 30, second_rate=Fraction(1, 2))
    assert rare.swaps == Swaps(pytest.approx(0.6), pytest.approx(0.95), 30)


def test_a_guess_by_margin_has_the_shares_of_the_block_and_links_nobody() -> None:
    """Fails for: shares of the tract, shares of the person's own frame, and the block's mode."""
    truth = make_truth(SUMMARY_FILE, 60, 6)
    shares = guess_by_margin(Exact().draw(truth.tract, KEY).publication, truth.file).shares
    margins = truth.counts.sum(axis=1)[truth.tract.place]
    assert np.allclose(shares, margins / margins.sum(axis=1, keepdims=True))
    persons = np.arange(len(shares)), truth.tract.category
    with_target, without = shares[persons].mean(), truth.shares_of_others.mean()
    assert with_target > without > truth.counts.sum(axis=(0, 1))[truth.tract.category].mean() / len(shares)


@pytest.mark.prove
def test_a_poor_file_is_right_about_a_third_and_names_nobody_who_is_missing() -> None:
    """Fails for: errors that cancel, another block that may be the same one, and a file that improves each time
    it is made."""
    truth = make_truth(SUMMARY_FILE, 1500, 30)
    (file, there), (again, _) = (truth.spoil_file(KEY) for _ in range(2))
    assert np.array_equal(file.block, again.block)
    persons, right = len(truth.tract.household), truth.file
    assert len(there) / persons == pytest.approx(0.93, abs=0.02)
    same = file.block == right.block[there], file.frame == right.frame[there]
    assert same[0].mean() == pytest.approx(0.42, abs=0.03)
    assert 0.35 < (same[0] & same[1]).mean() < 0.4
    assert file.frame.max() < 76
    of_other_sex = file.frame // 38 != right.frame[there] // 38
    assert 0 < of_other_sex.mean() < 0.02
    published = Exact().draw(truth.tract, KEY).publication
    guesses = link(published, file).spread(there, persons)
    missing = np.setdiff1d(np.arange(persons), there)
    assert not guesses.shares[missing].any()
    assert set(guesses.fallback[missing]) == {NONE}
    poor, good = (
        find(measure_guesses(truth, "link", each), UNIQUE, "accuracy") for each in (guesses, link(published, right))
    )
    assert poor < 0.6 * good
    households = replace(truth.tract, tier=REDISTRICTING, frame=truth.tract.adult.astype(np.int64))
    assert set(Truth(households).spoil_file(KEY)[0].frame) <= {0, 1}, "T1 has no ages that could be wrong"


def test_the_advantage_is_that_of_the_best_guess_between_two_worlds() -> None:
    truth = make_truth(REDISTRICTING, 20, 2)
    ratios = np.array([0, np.log(3), -np.log(3), np.inf])
    draw = replace(Exact().draw(truth.tract, KEY), log_ratios=ratios)
    (advantage,) = (row.value for row in measure_ratios(truth, draw, ratios) if row.measure == "advantage")  # type: ignore[arg-type]
    assert advantage == pytest.approx((0 + 0.5 - 0.5 + 1) / 4)


OWN = """
import io, mmap, os, signal, socket, struct, sys, time, zipfile
import numpy as np
# Shared by all forks of a process that has loaded the module.
SECRETS, calls = {secrets!r}, mmap.mmap(-1, 1)
def count_opened(publication, persons):
    opened = 0
    for path in SECRETS:
        try:
            open(path, "rb").read(1)
            opened += 1
        except OSError:
            pass
    # By the first, another process could be asked for a file.
    for family in {families!r}:
        try:
            socket.socket(family).close()
            opened += 1
        except OSError:
            pass
    opened += any(name.endswith(("records", "evaluation")) for name in sys.modules if name.startswith("assets."))
    calls[0] += 1
    return np.full(len(persons.block), opened + 10 * calls[0])
def fail(publication, persons):
    raise ValueError("secret")
def shout(publication, persons):
    print("not an answer")
    for descriptor in range(3, 12):
        try:
            os.write(descriptor, struct.pack("=?Q", False, 0))
        except OSError:
            pass
    return [[0.5]]
def forge(publication, persons):
    # It answers by itself, past all that judges what it returns.
    answer = io.BytesIO()
    np.savez(answer, shares=np.ones((len(persons.block), publication.tier.shape[1])), fallback=persons.block)
    send(True, answer.getvalue())
def garble(publication, persons):
    send(True, b"no archive")
def swell(publication, persons):
    return np.zeros((len(persons.block), 1000 * publication.tier.shape[1]))
def pack(publication, persons):
    answer = io.BytesIO()
    np.savez_compressed(answer, shares=np.zeros(10**6))
    send(True, answer.getvalue())
def claim(publication, persons):
    # The header of an array of a million terabytes.
    header = str(dict(descr="<f8", fortran_order=False, shape=(10**9, 10**8))).encode().ljust(118)
    answer = io.BytesIO()
    with zipfile.ZipFile(answer, "w") as archive:
        archive.writestr("shares.npy", bytes([147]) + b"NUMPY" + bytes([1, 0, 118, 0]) + header)
    send(True, answer.getvalue())
def lock(publication, persons):
    # An archive that says that it is encrypted; the error of its reader has the name of the array.
    answer = io.BytesIO()
    with zipfile.ZipFile(answer, "w") as archive:
        archive.writestr("secret.npy", b"")
    content = bytearray(answer.getvalue())
    content[6] |= 1
    content[content.index(b"PK" + bytes([1, 2])) + 8] |= 1
    send(True, bytes(content))
def quote(publication, persons):
    print("quoted: secret", file=sys.stderr, flush=True)
    send(False, b"secret " + bytes([255]))
def send(succeeded, content):
    for descriptor in range(3, 12):
        try:
            os.write(descriptor, struct.pack("=?Q", succeeded, len(content)) + content)
        except OSError:
            pass
    os._exit(0)
def miss(publication, persons):
    return [0]
def leave(publication, persons):
    os._exit(0)
def stay(publication, persons):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(600)
"""


OWN_NAMES = (
    *("count_opened", "fail", "shout", "miss", "forge", "garble", "swell", "pack", "claim", "lock", "quote", "leave"),
    "stay",
)


def test_an_attack_can_open_nothing_and_remembers_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Fails for: guesses judged where the attack runs, and errors and a log that quote its data; an attack that
    runs in the process of the evaluation, and one process for all publications; a module in shared memory; a wait for
    the answer of an attack that has ended; one pipe for all answers, in which one attack answers for the next; an
    attack that continues after its run was killed, and one that never ends; an answer of any size, packed, or with a
    header that claims more than it has; and a reader's error that quotes an answer."""
    package = tmp_path / "own" / "packed"
    package.mkdir(parents=True)
    secrets = [tmp_path / name for name in ("confidential.duckdb", "master.key", "own/packed/source.csv")]
    for path in secrets:
        path.write_text("secret")
    module = tmp_path / "own" / "my_attacks.py"
    families = [int(socket.AF_UNIX), int(socket.AF_INET)] if find_landlock_version() else []
    for file in (module, package / "__init__.py"):
        file.write_text(OWN.format(secrets=list(map(str, secrets)), families=families))
    monkeypatch.syspath_prepend(str(tmp_path / "own"))
    own = {name: OwnAttack.find(f"my_attacks:{name}") for name in OWN_NAMES}
    own["packed"] = OwnAttack.find("packed:count_opened")
    (tmp_path / "own" / "page.py").write_text(*fenced(DOCS / "how-to" / "laboratory.md", "python"))
    own["mine"] = OwnAttack.find("page:guess")
    truth = make_truth(REDISTRICTING, 20, 2)
    publication = Exact().draw(truth.tract, KEY).publication
    with closing(Attacker(own, secrets, 600)) as attacker:
        for _ in range(2):
            for name in ("count_opened", "packed"):
                shares = attacker.guess(name, publication, truth.file).shares
                assert set(shares.argmax(axis=1)) == {10}, "none opened, and called for the first time"
        for guesses in attacker.guess_each("count_opened", [(publication, truth.file)] * 2):
            assert set(guesses.shares.argmax(axis=1)) == {10}, "nor in the next world"
        with pytest.raises(AttackError, match=r"^attack fail: it failed \(ValueError\); what was stored is kept"):
            attacker.guess("fail", publication, truth.file)
        with pytest.raises(AttackError, match=r"it failed \("):
            attacker.guess("shout", publication, truth.file)
        with pytest.raises(AttackError, match=r"it failed \(an attack returns a category or the shares of all"):
            attacker.guess("miss", publication, truth.file)
        for name, says in (
            ("forge", "the shares of a person's categories are not negative, and sum to 1 at most"),
            ("garble", "what it returned is no guesses"),
            ("swell", "it returned more than one share for each person and category"),
            ("pack", "what it returned is no guesses"),
            ("claim", "what it returned is no guesses"),
            ("lock", "what it returned is no guesses"),
            ("quote", "an error that is not Python's"),
        ):
            with pytest.raises(AttackError, match=rf"^attack {name}: it failed \({says}\)"):
                attacker.guess(name, publication, truth.file)
        with pytest.raises(AttackError, match="was ended"):
            attacker.guess("leave", publication, truth.file)
        counts = np.random.default_rng(1).integers(0, 100, (2, *publication.tier.shape))
        guesses = attacker.guess("mine", replace(publication, counts=counts), truth.file)
        assert np.array_equal(guesses.shares.argmax(axis=1), counts.sum(axis=1).argmax(axis=1)[truth.file.block])
        linked = attacker.guess("link", publication, truth.file)
        assert np.array_equal(linked.shares, link(publication, truth.file).shares)
        swapped = replace(publication, counts=publication.counts[::-1])
        worlds = [(each, truth.file) for each in (publication, swapped, publication)]
        for lot in (2**26, 1):
            monkeypatch.setattr("assets.laboratory.attacking._LOT", lot)
            for guesses, world in zip(attacker.guess_each("undo", worlds), worlds, strict=True):
                _reconstruct_block.cache_clear()
                assert np.array_equal(guesses.shares, undo(*world).shares), "what was solved is of the same counts"
        _require_end_with_parent(attacker, publication, truth.file)
    with closing(Attacker(own, secrets, 1)) as attacker:
        with pytest.raises(
            AttackError, match=r"^attack stay: it failed \(it took over 1 seconds, the limit of attack_s"
        ):
            attacker.guess("stay", publication, truth.file)
        with pytest.raises(AttackError, match=r"\(ValueError\)"):
            attacker.guess("fail", publication, truth.file)
    assert "quoted" not in capfd.readouterr().err
    from my_attacks import count_opened  # type: ignore[import-not-found]

    assert count_opened(publication, truth.file)[0] == 14 + len(families), "in this process, it opens all"
    version = own["fail"].version
    module.write_text(module.read_text() + "\n")
    assert OwnAttack.find("my_attacks:fail").version != version
    with pytest.raises(AttackError, match="there is no module nowhere"):
        OwnAttack.find("nowhere.at_all:attack")


def _require_end_with_parent(attacker: Attacker, publication: Publication, persons: NamedPersons) -> None:
    processes = [one for one in psutil.Process().children() if "assets.laboratory.process" in one.cmdline()]
    (process,) = (one for one in processes if one.pid == attacker._processes[True].pid)
    assert len(processes) == 2, "what attacks that are built in remember is in another process"
    with ThreadPoolExecutor(1) as threads:
        asked = threads.submit(attacker.guess, "stay", publication, persons)
        while not (under_way := [one for one in process.children() if os.getsid(one.pid) == one.pid]):
            time.sleep(0.01)
        process.kill()
        with pytest.raises(AttackError, match="its process ended"):
            asked.result()
    for built_in in processes:
        built_in.kill()
    with pytest.raises(AttackError, match="attack link: its process ended; it was killed; what was stored is kept"):
        attacker.guess("link", publication, persons)
    gone, alive = psutil.wait_procs(under_way, timeout=60)
    for left in alive:
        left.kill()
    assert gone == under_way


def test_what_an_attack_returns_is_checked() -> None:
    shares = np.array([[0.5, 0.5], [1, 0]])
    assert np.array_equal(Guesses.of(np.array([0, NONE]), 2, 2).shares, [[1, 0], [0, 0]])
    assert np.array_equal(Guesses.of(shares, 2, 2).shares, shares)
    numbered_otherwise = (np.array([1, 2]), np.array([0, -2]), Guesses(shares, np.array([NONE, 2])))
    for wrong in (shares * 2, -shares, shares[:1], np.array(["a", "b"]), *numbered_otherwise):
        with pytest.raises((ValueError, TypeError)):
            Guesses.of(wrong, 2, 2)


def test_an_attackers_file_is_counted_by_block_and_frame() -> None:
    file = NamedPersons(np.array([0, 0, 1]), np.array([1, 1, 0]))
    assert np.array_equal(file.count(3, 2), [[0, 2], [1, 0], [0, 0]])
    assert replace(file, frame=np.zeros(3, dtype=np.int64)).count(3, 2)[0, 0] == 2


@pytest.mark.deep
def test_confident_records_match_more_often_than_those_of_a_guesser_and_all_that_are_certain_do() -> None:
    """Fails for: a ranking by frequency, and a single reconstruction, in which all have confidence 1."""
    truth = make_truth(SUMMARY_FILE, 70, 6)
    found = reconstruct(Exact().draw(truth.tract, KEY).publication, certain=True)
    measures = list(measure_reconstruction(truth, "", found))
    ranks = {row.subset: row for row in measures if row.measure == MATCH_RATE}
    determined = {row.block_size: row for row in measures if row.measure == "determined"}
    for size, row in determined.items():
        of_size = truth.block_sizes[size][truth.tract.place]
        assert row.value == truth.determined[truth.tract.place][of_size].mean()
        assert row.persons == of_size.sum()
    assert 0 < determined["10 to 49"].value < 1
    guesser = {row.subset: row.value for row in measure_holdout(truth, [make_truth(SUMMARY_FILE, 50, 6)])}
    assert ranks["first 10%"].value == ranks["confidence 1"].value == 1
    assert ranks["confidence 0 to 0.5"].value < ranks["confidence 0.8 to 1"].value
    assert all(ranks[name].value >= value for name, value in guesser.items())
    assert ranks["first 50%"].value > guesser["first 50%"] + 0.2
    assert sum(ranks[name].persons for name in ranks if "confidence" in name) == np.count_nonzero(found.confidence)
    frequent = np.broadcast_to(found.histograms.sum(axis=0), found.histograms.shape)
    assert (truth.counts.ravel()[np.argsort(-frequent.ravel())[:20]] > 0).mean() < 1
    assert not list(measure_holdout(truth, []))
