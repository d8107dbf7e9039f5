"""`make pictures`: draw the pictures that are out of date."""

from pathlib import Path

from docs.pictures.differencing import draw_differencing
from docs.pictures.gain import draw_gain
from docs.pictures.layers import draw_layers
from docs.pictures.lineage import draw_lineage, list_stages, load_definitions
from docs.pictures.shapes import Drawing, read_shapes, save

FOLDER = Path(__file__).resolve().parent

RELEASES = {
    "swapping": ("ma1940", "tenure_by_county"),
    "phsafe": ("two_states", "s_dhc"),
    "safetab": ("detailed", "persons"),
    "topdown": ("two_states", "redistricting"),
    "pair_swapping": ("two_states", "pairs_2010"),
    "coarsening": ("two_states", "coarsened"),
    "suppression": ("two_states", "suppressed"),
    "table_builder": ("survey", "tables_employment"),
}
"""The release that the page of each mechanism shows."""

FURTHER = {"topdown-dhc": ("two_counties", "dhc")}
"""The release that another page shows."""


def make_drawings() -> dict[str, Drawing]:
    defined = load_definitions()
    pictures = {"layers.png": draw_layers(), "differencing.png": draw_differencing(), "gain.png": draw_gain()}
    for mechanism, (dataset, release) in (RELEASES | FURTHER).items():
        title = f"How a release flows: {dataset}/{release}"
        pictures[f"{mechanism}-lineage.png"] = draw_lineage(title, list_stages(defined, dataset, release))
    return pictures


def main() -> None:
    for name, drawing in make_drawings().items():
        path = FOLDER / name
        if not path.exists() or read_shapes(path) != drawing.text():
            save(drawing, path)
            print(f"docs/pictures/{name}")


if __name__ == "__main__":
    main()
