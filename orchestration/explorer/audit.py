"""The page *Audit*: what can be proved with the public key and the ledger alone, and how to prove it without this page.

The seal of the ledger's end and the repetition of draws need the keys, which this process cannot open: `stirred audit`
asks for them.
"""

import shlex
from collections.abc import Sequence

import streamlit as st

from assets.ledger.asset import find_unlike_tables
from assets.ledger.view import list_budgets, list_charge_rows
from assets.publication.asset import edition_problems
from assets.publication.placement import publications
from assets.publication.signature import (
    CHECKSUMS,
    PUBLIC_KEY,
    SIGNATURE,
    VerificationError,
    fingerprint,
    read_public_key,
)
from orchestration.explorer.display import show_table
from orchestration.explorer.reading import (
    UnavailableError,
    ask_patiently,
    find_published,
    find_warehouse,
    list_populations,
    read_entries,
    read_replays,
)
from orchestration.explorer.settings import read_settings
from orchestration.explorer.words import escape
from resources import chain
from resources.chain import Entry
from resources.statements import Zone


def show() -> None:
    st.title("Audit")
    st.write("Everything on this page is checked again whenever the page is opened. Nothing is charged or changed.")
    intact = _ledger()
    _publications(intact)
    _draws(intact)
    _yourself()
    st.header("What this page can open")
    st.write(escape(read_settings().confinement))


def _ledger() -> tuple[Entry, ...] | None:
    st.header("The ledger")
    try:
        found = read_entries()
    except UnavailableError as error:
        st.warning(escape(error))
        return None
    problems = chain.find_breaks(found)
    if problems:
        st.error(escape(f"The chain of {len(found)} entries is broken."))
        for problem in problems:
            st.write(escape(problem))
        return None
    st.success(
        escape(
            f"The hashes of all {len(found)} entries were computed again. Each entry is as it was written, and each "
            "continues the one before."
        )
    )
    if found:
        st.write("The hash of the last entry, which stands for all of them:")
        st.code(found[-1].hash, language=None, wrap_lines=True)
    st.write(
        "That no entry was cut off at the end is sealed beside the keys; stirred audit checks that. What was published "
        "must be in the ledger too, which is checked below."
    )
    _shown(found)
    return found


def _shown(found: Sequence[Entry]) -> None:
    try:
        altered, lagging = ask_patiently(lambda: find_unlike_tables(find_warehouse(), found, list_populations(found)))
    except UnavailableError as error:
        st.warning(escape(error))
        return
    if altered:
        st.error(escape(f"The tables of the ledger in the public database were altered: {'; '.join(altered)}."))
    elif lagging:
        st.info(escape(f"A table of the public database is older than the ledger: {'; '.join(lagging)}."))
    elif find_warehouse().path(Zone.PUBLIC).exists():
        st.success("The tables of the ledger in the public database show what the ledger holds.")


def _publications(intact: tuple[Entry, ...] | None) -> None:
    st.header("The publications")
    folder = find_published()
    found = publications(folder)
    if not found:
        st.info("Nothing is published yet.")
        return
    try:
        key = read_public_key(folder / PUBLIC_KEY)
    except VerificationError as error:
        st.error(escape(f"No signature can be verified: {error}."))
        return
    st.write("The fingerprint of the public key beside the publications. Compare it with one that you got another way:")
    st.code(fingerprint(key), language=None, wrap_lines=True)
    if intact is None:
        st.warning("The publications are verified below, but not compared with the ledger.")
    rows, broken = [], []
    for dataset, release in found:
        editions, problems = edition_problems(folder, dataset, release, key, intact)
        numbers = ", ".join(
            str(edition.edition) for edition in sorted(editions.values(), key=lambda edition: edition.edition)
        )
        rows.append(
            {
                "Release": f"{dataset}/{release}",
                "Signature, checksums and ledger": "; ".join(problems) or "intact",
                "Editions verified": numbers or "none",
                "Ledger entry": ", ".join(str(edition.ledger_entry) for edition in editions.values()),
            }
        )
        broken += [f"{dataset}/{release}: {problem}" for problem in problems]
    if broken:
        st.error(escape(f"{len(broken)} problems were found, the first: {broken[0]}."))
    else:
        st.success(
            f"All {len(found)} publications are signed with this key, every file has its checksum, and none is missing "
            "or added." + (" Each is a draw that the ledger holds." if intact is not None else "")
        )
    show_table(rows)


def _draws(intact: tuple[Entry, ...] | None) -> None:
    st.header("The draws")
    if not intact:
        st.write("There are no draws to show.")
        return
    known = read_replays()
    if not known:
        st.info("Dagster has recorded no replay, or its records cannot be read; the checks named replay repeat draws.")
    show_table(
        [
            {
                "Entry": row["entry"],
                "Release": row["release"],
                "Charged": row["loss"],
                "Draw": row["draw"],
                "Custody": row["custody"],
                "Last replay (UTC)": row["last replay"],
            }
            for row in list_charge_rows(list_budgets(intact, ()).values(), known)
        ]
    )
    st.caption("What Dagster recorded of replays is copied by the launcher of this page, every half minute.")


def _yourself() -> None:
    st.header("Do it yourself")
    folder = find_published()
    found = publications(folder)
    st.write(
        "With the keys and the databases: every gate again, every draw that can be repeated, and the ledger's seal."
    )
    st.code("stirred audit", language="sh")
    if not found:
        return
    options = ["/".join(publication) for publication in found]
    name = st.selectbox("With the public key alone, for the release", options)
    where = folder / name
    st.code(
        f"stirred verify {shlex.quote(str(where))} --key {shlex.quote(str(folder / PUBLIC_KEY))}",
        language="sh",
        wrap_lines=True,
    )
    st.write("With ordinary commands:")
    st.code(
        f"cd {shlex.quote(str(where))}\n"
        f"openssl pkeyutl -verify -pubin -inkey ../../{PUBLIC_KEY} -rawin -in {CHECKSUMS} -sigfile {SIGNATURE}\n"
        f"sha256sum --check --quiet {CHECKSUMS}\n"
        f"openssl pkey -pubin -in ../../{PUBLIC_KEY} -outform DER | sha256sum",
        language="sh",
        wrap_lines=True,
    )
