"""The page *Audit*: proofs with the public key and the ledger alone, and how to repeat them without this page.

The ledger's anchor and the repetition of draws need the keys, which this process cannot open. `stirred audit` checks
both.
"""

import shlex
from collections.abc import Sequence

import streamlit as st

from assets.ledger.asset import find_unlike_tables
from assets.ledger.view import list_budgets, list_charge_rows
from assets.publication.asset import edition_problems
from assets.publication.placement import publications
from assets.release.signature import (
    CHECKSUMS,
    PUBLIC_KEY,
    SIGNATURE,
    VerificationError,
    fingerprint,
)
from orchestration.explorer.display import show_table
from orchestration.explorer.reading import (
    UnavailableError,
    ask_database,
    find_published,
    find_warehouse,
    read_entries,
    read_key,
    read_replays,
)
from orchestration.explorer.settings import read_settings
from orchestration.explorer.words import escape
from resources import chain
from resources.chain import Entry
from resources.statements import Zone

_DRAWS = {
    "Entry": "entry",
    "Release": "release",
    "Charged": "loss",
    "Draw": "draw",
    "Custody": "custody",
    "Last replay (UTC)": "last replay",
}


def show() -> None:
    st.title("Audit")
    st.write("Everything on this page is checked again whenever the page is opened. Nothing is charged or changed.")
    intact = _show_ledger()
    _show_publications(intact)
    _show_draws(intact)
    _show_commands()
    st.header("Files that this page can open")
    st.write(escape(read_settings().confinement))


def _show_ledger() -> tuple[Entry, ...] | None:
    """The entries; None if they cannot be read, or their chain is broken."""
    st.header("The ledger")
    try:
        entries = read_entries()
    except UnavailableError as error:
        st.warning(escape(error))
        return None
    if problems := chain.find_breaks(entries):
        st.error(escape(f"The chain of {len(entries)} entries is broken."))
        for problem in problems:
            st.write(escape(problem))
        return None
    if not entries:
        st.info("The ledger has no entries yet.")
    else:
        st.success(
            escape(
                f"The hashes of all {len(entries):,} entries were computed again. Each entry is as it was written, and "
                "each continues the one before."
            )
        )
        st.write("The hash of the last entry, which stands for all of them:")
        st.code(entries[-1].hash, language=None, wrap_lines=True)
    st.write(
        "The anchor beside the keys shows whether entries were cut off at the end; `stirred audit` checks it. What was "
        "published must be in the ledger too, which is checked below."
    )
    _compare_tables(entries)
    return entries


def _compare_tables(entries: Sequence[Entry]) -> None:
    populations = dict.fromkeys(entry.parse_details().population for entry in entries if entry.kind == chain.RESERVE)
    try:
        altered, lagging = ask_database(lambda: find_unlike_tables(find_warehouse(), entries, populations))
    except UnavailableError as error:
        st.warning(escape(error))
        return
    if altered:
        st.error(_list("The tables of the ledger in the public database were altered:", altered))
    elif lagging:
        st.info(_list("Tables of the public database are older than the ledger:", lagging))
    elif find_warehouse().path(Zone.PUBLIC).exists():
        st.success("The tables of the ledger in the public database agree with the ledger.")


def _list(words: str, parts: Sequence[str]) -> str:
    """Markdown with the words and a list of the parts below them."""
    return "\n".join([words, "", *(f"- {escape(part)}" for part in parts)])


def _show_publications(intact: tuple[Entry, ...] | None) -> None:
    st.header("The publications")
    folder = find_published()
    published = publications(folder)
    if not published:
        st.info("Nothing is published.")
        return
    try:
        key = read_key()
    except VerificationError as error:
        st.error(escape(f"No signature can be verified: {error}."))
        return
    st.write("The fingerprint of the public key beside the publications. Compare it with one that you got another way:")
    st.code(fingerprint(key), language=None, wrap_lines=True)
    if intact is None:
        st.warning("The publications are verified below, but not compared with the ledger.")
    rows, broken = [], []
    for dataset, release in published:
        editions, problems = edition_problems(folder, dataset, release, key, intact)
        rows.append(
            {
                "Release": f"{dataset}/{release}",
                "Signature, checksums and ledger": "; ".join(problems) or "intact",
                "Editions verified": ", ".join(
                    edition.name for edition in sorted(editions.values(), key=lambda each: each.order)
                )
                or "none",
                "Ledger entry": ", ".join(str(edition.ledger_entry or "none") for edition in editions.values()),
            }
        )
        broken += [f"{dataset}/{release}: {problem}" for problem in problems]
    if broken:
        st.error(escape(f"Problems found: {len(broken)}. The first: {broken[0]}."))
    else:
        st.success(
            f"All publications ({len(published)}) are signed with this key, every file has its checksum, and none is "
            "missing or added."
            + (
                " Each is a draw that the ledger holds, or estimated from published measurements."
                if intact is not None
                else ""
            )
        )
    show_table(rows)


def _show_draws(intact: tuple[Entry, ...] | None) -> None:
    st.header("The draws")
    if not intact:
        st.write("There are no draws to show.")
        return
    replays = read_replays()
    if not replays:
        st.info("Dagster has recorded no replay, or its records cannot be read; the checks named replay repeat draws.")
    show_table(list_charge_rows(list_budgets(intact, ()).values(), replays), _DRAWS)
    st.caption("The launcher of this page copies Dagster's records of replays every half minute.")


def _show_commands() -> None:
    st.header("Do it yourself")
    folder = find_published()
    st.write(
        "With the keys and the databases: every gate again, every draw that can be repeated, and the ledger's anchor."
    )
    st.code("stirred audit", language=None)
    names = ["/".join(publication) for publication in publications(folder)]
    if not names:
        return
    name = st.selectbox("With the public key alone, for the release", names)
    place, key = (shlex.quote(str(folder / part)) for part in (name, PUBLIC_KEY))
    st.code(f"stirred verify {place} --key {key}", language=None, wrap_lines=True)
    st.write("With ordinary commands:")
    st.code(
        f"cd {place}\n"
        f"openssl pkeyutl -verify -pubin -inkey ../../{PUBLIC_KEY} -rawin -in {CHECKSUMS} -sigfile {SIGNATURE}\n"
        f"sha256sum --check --quiet {CHECKSUMS}\n"
        f"openssl pkey -pubin -in ../../{PUBLIC_KEY} -outform DER | sha256sum",
        language=None,
        wrap_lines=True,
    )
