"""The page *Laboratory*: risk against error of each method of a laboratory, from the files of its results.

A laboratory has one tier, and a picture shows one laboratory, so no picture mixes two tiers.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import altair as alt
import pandas as pd
import pyarrow.parquet as pq
import streamlit as st

from assets.laboratory.evaluation import ANY_SIZE, NONMODAL, UNIQUE
from assets.laboratory.measures import ATTACKERS, BASELINE, GAIN, LINKING, MEASURES, OVER_GUESSER
from assets.laboratory.points import Exact
from assets.laboratory.results import ERROR, SUBSETS, find_most_successful
from orchestration.explorer.display import (
    INK,
    choose,
    make_legend,
    show_chart_with_table,
    show_table,
    split_page,
    wrap,
    wrap_title,
)
from orchestration.explorer.process import COLORS
from orchestration.explorer.settings import read_settings
from orchestration.explorer.words import escape

BEST = "the most successful one"
RISKS = ("accuracy", "gain", "precision", "confirmed", "named")
_GUESSER = "share of others"
_LEGEND = 30
"""The height of a line of the legend, in pixels."""
_LABEL = 20
"""The number of letters in a line of a point's label."""
_SIDE, _LETTER, _LINE = 300, 6, 13
"""The pixels of a side of the picture on a phone, of a letter of a label, and of a line."""
_MARK, _BESIDE, _ABOVE = 5, 7, 6
"""The pixels from the middle of a point to its edge, and to its label: sideways, and upwards."""
_SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")
_COLUMNS = {
    "Method": "method",
    "Parameters": "parameters",
    "Error of counts": "error",
    "Risk": "risk",
    "Less no protection": "difference",
    "Attack": "attack",
    "Persons": "persons",
}
_ESTIMATES = ("error", "risk", "difference")
"""The columns that have a standard error."""
_LESSONS = {
    "Named": "named",
    "Precision": "precision",
    "Accuracy": "accuracy",
    "Over the guesser": OVER_GUESSER,
    "Over the world without the person": GAIN,
}
"""The measures, by heading."""
_NOT_MEASURED = {"value": None, "standard_error": None}


def show() -> None:
    st.title("Laboratory")
    folder = read_settings().laboratory
    found = {str(path.parent.relative_to(folder)): path for path in sorted(folder.glob("*/*/results.parquet"))}
    if not found:
        st.info(
            "No laboratory has results yet. *Compare methods: what an attacker learns* in the documentation shows "
            "how to declare one; `stirred launch` makes its results."
        )
        return
    link: dict[str, str] = {}
    controls, picture = split_page()
    with controls:
        name = choose("Laboratory", {each: each for each in found}, link, "laboratory")
        table = pq.read_table(found[name])
        rows = table.to_pylist()
        measures = [each for each in RISKS if any(row["measure"] == each for row in rows)]
        if not measures:
            st.info("No accuracy, gain or precision is among the declared metrics: the files have what was measured.")
            _offer_files(found[name].parent)
            return
        subsets = [each for each in SUBSETS if any(row["subset"] == each for row in rows)]
        exposed = max((subsets.index(each) for each in (NONMODAL, UNIQUE) if each in subsets), default=0)
        subset = choose("Persons", dict(zip(subsets, subsets, strict=True)), link, "subset", name, exposed)
        measured = {row["block_size"] for row in rows if row["subset"] == subset} - {ANY_SIZE}
        sizes = [ANY_SIZE, *sorted(measured, key=lambda words: int(words.split()[0]))]
        size = choose("Persons of the block", dict(zip(sizes, sizes, strict=True)), link, "size", name)
        risk = choose("Risk", dict(zip(measures, measures, strict=True)), link, "risk", name)
        attacks = list(dict.fromkeys(row["attack"] for row in rows if row["method"] and row["measure"] == risk))
        best = [name for name in attacks if name in LINKING or name not in ATTACKERS]
        attacks = [BEST, *attacks] if best else attacks
        attack = choose("Attack", dict(zip(attacks, attacks, strict=True)), link, "attack", name)
        words = "" if attack == BEST else f" {attack}: {ATTACKERS.get(attack, 'an attack of your own')}."
        st.caption(escape(f"{subset}: {SUBSETS[subset]}. {risk}: {MEASURES[risk]}.{words}"))
        _offer_files(found[name].parent)
    st.query_params.from_dict(link)
    described = {key.decode(): value.decode() for key, value in (table.schema.metadata or {}).items()}
    with picture:
        st.header(escape(f"{described.get('title', name)}, tier {described.get('tier', '')}"))
        chosen = best if attack == BEST else [attack]
        _show_points(rows, subset, size, risk, chosen)
        if lessons := list_lessons(rows, subset, size, chosen):
            with st.expander("What the attacker learns of these persons"):
                show_table(lessons)
        st.caption(
            "Records are synthetic: the picture shows the order of methods under these attacks, and no national "
            "percentage. A low point is no guarantee; another attack may do better. Labels that would cover others or "
            "points are left out; the table has the parameters of all points. Bars and ±: one standard error."
        )


def _offer_files(folder: Path) -> None:
    for file in ("results.csv", "results.parquet", "dictionary.csv"):
        st.download_button(f"Download {file}", (folder / file).read_bytes(), file)


def list_points(
    rows: Sequence[Mapping[str, Any]], subset: str, size: str, risk: str, attacks: Sequence[str]
) -> list[dict[str, Any]]:
    """A row for each method with its parameters: error, risk and standard errors, by the most successful attack."""
    found = {
        tuple(row[name] for name in ("method", "parameters", "attack", "subset", "block_size", "measure")): row
        for row in rows
    }
    points = []
    for named in dict.fromkeys((row["method"], row["parameters"]) for row in rows if row["method"]):
        x = found.get((*named, *ERROR))
        y = find_most_successful(found.get((*named, attack, subset, size, risk)) for attack in attacks)
        if x and y:
            (error, error_se), (value, value_se) = ((row["value"], row["standard_error"] or 0.0) for row in (x, y))
            points.append(
                {
                    "method": named[0], "parameters": named[1], "error": error, "error_se": error_se, "risk": value,
                    "risk_se": value_se, "difference": y["difference"], "difference_se": y["difference_error"],
                    "attack": y["attack"], "persons": f"{y['persons']:,}",
                    "low": value - value_se, "high": value + value_se, "left": error - error_se,
                    "right": error + error_se, "label": "\n".join(wrap(named[1], _LABEL)),
                }
            )  # fmt: skip
    return points


def list_lessons(
    rows: Sequence[Mapping[str, Any]], subset: str, size: str, attacks: Sequence[str]
) -> list[dict[str, str]]:
    """A row for each method with its parameters, about the attack that is right most often: how many persons it names,
    how often it is right about these and about all persons, and by how much it exceeds a guesser and a world without
    the person."""
    found = {
        tuple(row[name] for name in ("method", "parameters", "attack", "measure")): row
        for row in rows
        if (row["subset"], row["block_size"]) == (subset, size)
    }
    lessons = []
    for named in dict.fromkeys((row["method"], row["parameters"]) for row in rows if row["method"]):
        right = find_most_successful(found.get((*named, attack, "accuracy")) for attack in attacks)
        if right is None:
            continue
        lesson = {"Method": named[0], "Parameters": named[1], "Attack": right["attack"]}
        for heading, measure in _LESSONS.items():
            row = found.get((*named, right["attack"], measure), _NOT_MEASURED)
            lesson[heading] = _write(row["value"], row["standard_error"])
        lessons.append(lesson)
    return lessons


def leave_out_overlaps(points: Sequence[dict[str, Any]]) -> float:
    """Empty each label that would cover an earlier label or a point on a phone. Returns the greatest error whose label
    is on the right."""
    widest, highest = (max(point[end] for point in points) or 1 for end in ("right", "high"))
    lowest, middle = min(0, *(point["low"] for point in points)), max(point["error"] for point in points) / 2
    places = [
        (_SIDE * point["error"] / widest, _SIDE * (highest - point["risk"]) / (highest - lowest)) for point in points
    ]
    taken = [(x - _MARK, x + _MARK, y - _MARK, y + _MARK) for x, y in places]
    for point, (x, y) in zip(points, places, strict=True):
        lines = point["label"].split("\n")
        width = _LETTER * max(map(len, lines))
        left = x + _BESIDE if point["error"] <= middle else x - _BESIDE - width
        top = y - _ABOVE - _LINE
        box = left, left + width, top, top + _LINE * len(lines)
        if any(box[0] < one[1] and one[0] < box[1] and box[2] < one[3] and one[2] < box[3] for one in taken):
            point["label"] = ""
        elif width:
            taken.append(box)
    return middle


def _show_points(rows: Sequence[Mapping[str, Any]], subset: str, size: str, risk: str, attacks: Sequence[str]) -> None:
    points = list_points(rows, subset, size, risk, attacks)
    if not points:
        st.info("Nothing is measured of these persons.")
        return
    middle = leave_out_overlaps(points)
    methods = list(dict.fromkeys(point["method"] for point in points))
    color = alt.Color(
        "method:N",
        sort=methods,
        legend=make_legend(methods),
        scale=alt.Scale(domain=methods),
    )
    shapes = [_SHAPES[place // len(COLORS["light"]) + place % 2 * 2] for place in range(len(methods))]
    x = alt.X("error:Q", title=wrap_title("mean absolute error of a block's counts that are not 0"))
    y = alt.Y("risk:Q", title=risk, axis=alt.Axis(format="%" if risk != "gain" else "+%"))
    base = alt.Chart(pd.DataFrame(points)).encode(color=color)
    figures = {"error": "error", "risk": risk, "risk_se": f"standard error of {risk}"}
    tooltip = [alt.Tooltip(f"{name}:N") for name in ("method", "parameters", "attack", "persons")]
    tooltip += [alt.Tooltip(f"{name}:Q", title=words, format=".3f") for name, words in figures.items()]
    layers = [
        base.mark_rule().encode(x=x, y=alt.Y("low:Q"), y2="high:Q"),
        base.mark_rule().encode(x=alt.X("left:Q"), x2="right:Q", y=y),
        base.mark_point(filled=True, size=70, opacity=1).encode(
            x=x,
            y=y,
            shape=alt.Shape("method:N", sort=methods, legend=None, scale=alt.Scale(domain=methods, range=shapes)),
            tooltip=tooltip,
        ),
    ]
    # Points on the right have their labels to the left, so that no label is cut.
    look: dict[str, Any] = {"dy": -_ABOVE, "fontSize": 11, "lineBreak": "\n"}
    for align, shift, side in (("left", _BESIDE, "<="), ("right", -_BESIDE, ">")):
        text = base.mark_text(**look, align=align, dx=shift)  # type: ignore[arg-type]
        label = text.transform_filter(f"datum.error {side} {middle}")
        layers.append(label.encode(x=x, y=y, text="label:N"))
    lines = {"no protection": next((point["risk"] for point in points if point["method"] == Exact.method), None)}
    if risk == "gain":
        lines["no gain"] = 0.0
    elif risk != "named":
        guesser = {(row["attack"], row["subset"], row["block_size"], row["measure"]): row["value"] for row in rows}
        lines["a guesser who knows all others of the block"] = guesser.get((BASELINE, subset, size, _GUESSER))
    for words, value in lines.items():
        if value is not None:
            # Points with a high risk are on the left of the picture, and points with a low one on the right.
            look |= {"align": "right", "dx": 0} if words == Exact.method else {"align": "left", "dx": 4}
            wrapped = wrap(words, _LABEL)
            look["dy"] = -_ABOVE - _LINE * (len(wrapped) - 1)
            line = alt.Chart(pd.DataFrame([{"risk": value, "words": "\n".join(wrapped)}]))
            layers.append(line.mark_rule(strokeDash=[5, 4], color=INK).encode(y="risk:Q"))
            layers.append(
                line.mark_text(**look, color=INK).encode(
                    x=alt.value("width" if words == Exact.method else 0), y="risk:Q", text="words:N"
                )
            )
    words = "; ".join(f"{each['method']} {each['parameters']}: {each['risk']:.3f}" for each in points)
    show_chart_with_table(
        alt.LayerChart(layer=layers, height=420 + _LEGEND * len(methods)),
        f"{risk} of {subset} against the error of counts. {words}",
        [point | {name: _write(point[name], point[f"{name}_se"]) for name in _ESTIMATES} for point in points],
        _COLUMNS,
    )


def _write(value: float | None, error: float | None) -> str:
    """A value with its standard error, if it has one."""
    if value is None:
        return "–"
    return f"{value:,.3f} ± {error:,.3f}" if error else f"{value:,.3f}"
