"""The results of a laboratory: a table with labels and standard errors, its dictionary, and the pictures."""

import csv
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from assets.laboratory.declaration import LaboratoryDeclaration
from assets.laboratory.evaluation import ALL, ANY_SIZE, DETERMINED, MODAL, NONMODAL, UNIQUE, most_exposed
from assets.laboratory.measures import ATTACKERS, BASELINE, GAIN, LINKING, MEASURES, TABLES
from assets.pictures import INK, QUIET, SERIES, VERMILION, blank, png

COLUMNS: Mapping[str, str] = {
    "method": "the method of disclosure avoidance",
    "parameters": "its parameters",
    "attack": "the attacker, as below",
    "subset": "of which persons of a tract, or of which kinds of records, cells or pairs",
    "block_size": "of blocks of how many persons",
    "measure": "what is measured, as below",
    "value": "its mean over tracts and draws",
    "standard_error": "of the mean: over tracts (or counties), or over the draws of a single one",
    "difference": "the value less that of no protection, of the same tracts",
    "difference_error": "the standard error of the difference, over tracts; empty for a single one",
    "greatest": "the greatest value of a draw of a tract",
    "sd_of_draws": "the standard deviation between draws of one tract",
    "sd_of_tracts": "the standard deviation between tracts, of means over draws",
    "tracts": "the number of tracts or counties",
    "draws": "the number of draws of each tract",
    "persons": "the persons, kinds of records, cells or pairs of all tracts together",
}
"""The columns of the table of results, with their descriptions."""

SUBSETS: Mapping[str, str] = {
    ALL: "everybody in the tract",
    MODAL: "persons who have the most frequent category of their block",
    NONMODAL: "persons who have another category than the most frequent one of their block",
    UNIQUE: "nonmodal persons who alone have in the block what the attacker knows beforehand; in T3 by group of ages",
    DETERMINED: "those of them in blocks whose exact tables only one set of records has",
}

_IN_PLACE_OF_ATTACKS: Mapping[str, str] = {
    BASELINE: "no attack: a guesser without a publication",
    TABLES: "no attack: what is measured of the publication itself, and of pairs",
}
_KINDS_OF_SUBSETS: Mapping[str, str] = {
    r"first .*": "of the kinds of records that are ranked first, so many as this share of the expected number",
    r"confidence .*": "kinds of records that so large a share of 20 reconstructions has",
    r"cells of a (block|block group|tract|county)": "all cells of the published tables of such places",
    r"rows by race": "rows of P1 in T1, and of P12A to P12G, by sex and age, in T2 and T3, of a block",
    r"cells of the tract's tables, not 0": "cells of the tables of the tract whose true count is not 0",
    r"cells of a .*": "cells of P1 to P4, or in T4 of all tables, with this true count in a place of this level",
    r".* of a .*, not 0": "cells of this table whose true count in a place of this level is not 0",
    r"blocks": "blocks of a tract",
    r"pairs": "pairs of worlds that differ by an exchange of two records",
}
"""By pattern, descriptions of the subsets of tables, pairs and kinds of records."""


def describe_subset(name: str) -> str:
    """The description of a subset in the dictionary."""
    patterns = (words for pattern, words in _KINDS_OF_SUBSETS.items() if re.fullmatch(pattern, name))
    return SUBSETS.get(name) or next(patterns)


ERROR = (TABLES, "cells of a block, not 0", ANY_SIZE, "mean absolute error")

Row = Mapping[str, Any]


def label_results(rows: Sequence[Row], declaration: LaboratoryDeclaration) -> pa.Table:
    """The table of results, in the order of the declaration, from rows by the key of the point; "" for none."""
    points = {"": ("", ""), **{point.key: (point.method, point.parameters) for point in declaration.points}}
    order = list(points)
    ordered = sorted(rows, key=lambda row: order.index(row["point"]))
    labelled = [dict(zip(("method", "parameters"), points[row["point"]], strict=True)) | dict(row) for row in ordered]
    return pa.Table.from_pylist([{name: row[name] for name in COLUMNS} for row in labelled])


def write_results(
    folder: Path, results: pa.Table, declaration: LaboratoryDeclaration, pictures: Mapping[str, bytes]
) -> list[Path]:
    """Write the table as CSV and Parquet, with title, tier and attackers, the dictionary of its names, and the
    pictures. Returns the files."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    pyarrow.csv.write_csv(results, folder / "results.csv")
    attackers = ", ".join([*declaration.attackers, *declaration.attacks])
    described = results.replace_schema_metadata(
        {"title": declaration.title, "tier": declaration.tier, "attackers": attackers}
    )
    pyarrow.parquet.write_table(described, folder / "results.parquet")
    with (folder / "dictionary.csv").open("w", newline="", encoding="utf-8") as lines:
        writer = csv.writer(lines)
        writer.writerow(["kind", "name", "description"])
        attacks = {name: ATTACKERS[name] for name in map(str, declaration.attackers)}
        attacks |= {name: f"an attack of one's own, {target}" for name, target in declaration.attacks.items()}
        attacks |= _IN_PLACE_OF_ATTACKS
        measures = {name: words for name, words in MEASURES.items() if name in declaration.measured}
        subsets = {name: describe_subset(name) for name in sorted(set(results["subset"].to_pylist()))}
        for kind, words in (("column", COLUMNS), ("attack", attacks), ("measure", measures), ("subset", subsets)):
            writer.writerows([kind, *item] for item in words.items())
    for name, content in pictures.items():
        (folder / f"{name}.png").write_bytes(content)
    names = ["results.csv", "results.parquet", "dictionary.csv", *(f"{name}.png" for name in pictures)]
    return [folder / name for name in names]


def draw_pictures(results: pa.Table, declaration: LaboratoryDeclaration) -> dict[str, tuple[bytes, str]]:
    """By name, the pictures of risk against error and their contents in words: a point for each method with each of its
    parameters, with standard errors."""
    found = {tuple(row[name] for name in (*_KEY, "measure")): row for row in results.to_pylist()}
    subset = most_exposed([row["subset"] for row in results.to_pylist()])
    tier = f"Tier {declaration.tier}, {subset} persons. Bars: one standard error."
    guesser = found.get(("", "", BASELINE, subset, ANY_SIZE, "share of others"))
    pictures, linking = {}, [*LINKING, *declaration.attacks]
    for name, title, measure, line in (
        ("accuracy", f"{_GUESSED.get(declaration.tier, _OF_PERSONS)} the attacker names rightly", "accuracy", guesser),
        (GAIN, "What taking part adds to the share named rightly", GAIN, {"value": 0.0}),
    ):
        points = {}
        for point in declaration.points:
            named = point.method, point.parameters
            x = found.get((*named, *ERROR))
            y = find_most_successful(found.get((*named, attack, subset, ANY_SIZE, measure)) for attack in linking)
            if x and y:
                points[point.key] = point.method, point.parameters, x, y
        if points:
            words = "; ".join(
                f"{key}: {y['value']:.3f} at error {x['value']:.3g}" for key, (_, _, x, y) in points.items()
            )
            pictures[name] = _draw(title, tier, points, line["value"] if line else None), f"{title}, {subset}. {words}"
    return pictures


def find_most_successful(rows: Iterable[Row | None]) -> Row | None:
    return max(filter(None, rows), key=lambda row: float(row["value"]), default=None)


_OF_PERSONS = "Persons whose race and ethnicity"
_GUESSED = {
    "T4-households": "Households whose type, and the householder's race and ethnicity,",
    "T4-groups": "Persons whose regional group of race",
}

_KEY = ("method", "parameters", "attack", "subset", "block_size")


def _draw(title: str, remark: str, points: Mapping[str, tuple[str, str, Row, Row]], guesser: float | None) -> bytes:
    figure, axes = blank(title, remark, height=5.8)
    methods = list(dict.fromkeys(method for method, *_ in points.values()))
    colors = [INK, *SERIES]
    for place, method in enumerate(methods):
        rows = [(parameters, x, y) for of, parameters, x, y in points.values() if of == method]
        (x_values, x_errors), (y_values, y_errors) = (
            ([row["value"] for row in column], [row["standard_error"] or 0.0 for row in column])
            for column in ([x for _, x, _ in rows], [y for _, _, y in rows])
        )
        again, number = divmod(place, len(colors))
        look: dict[str, Any] = {"fmt": "os"[again], "markersize": 5, "elinewidth": 1, "color": colors[number]}
        axes.errorbar(x_values, y_values, xerr=x_errors, yerr=y_errors, label=method, **look)
        for parameters, x, y in rows:
            at = x["value"], y["value"]
            axes.annotate(parameters, at, xytext=(5, 4), textcoords="offset points", fontsize=7.5, color=QUIET)
        if method == methods[0]:
            axes.axhline(y_values[0], color=INK, linewidth=1, linestyle="--", label=f"as {method}")
    if guesser is not None:
        axes.axhline(guesser, color=VERMILION, linewidth=1.2, label="guesser who knows all others of the block")
    axes.set_xlabel("mean absolute error of a block's counts that are not 0")
    axes.set_ylabel("share of persons")
    axes.margins(x=0.12)
    look = {"fontsize": 9, "facecolor": "white", "edgecolor": "none", "labelcolor": INK}
    figure.legend(loc="outside lower left", ncols=3, **look)
    return png(figure)
