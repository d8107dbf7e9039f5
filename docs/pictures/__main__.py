"""`make pictures`: draw the pictures that do not show the code as it is."""

from pathlib import Path

from docs.pictures.differencing import differencing_drawing
from docs.pictures.layers import layers_drawing
from docs.pictures.lineage import definitions, lineage_drawing, stages
from docs.pictures.shapes import Drawing, save, saved

FOLDER = Path(__file__).resolve().parent

RELEASES = {
    "swapping": ("ma1940", "tenure_by_county"),
    "phsafe": ("two_states", "s_dhc"),
    "safetab": ("detailed", "persons"),
    "topdown": ("two_states", "redistricting"),
    "pair_swapping": ("two_states", "pairs_2010"),
    "table_builder": ("survey", "tables_employment"),
}
"""The release that the page of each mechanism shows."""


def drawings() -> dict[str, Drawing]:
    """Every picture by the name of its file."""
    defined = definitions()
    pictures = {"layers.png": layers_drawing(), "differencing.png": differencing_drawing()}
    for mechanism, (dataset, release) in RELEASES.items():
        title = f"How a release flows: {dataset}/{release}"
        pictures[f"{mechanism}-lineage.png"] = lineage_drawing(title, stages(defined, dataset, release))
    return pictures


def main() -> None:
    """Draw what is missing or stale, and say which files these are."""
    for name, drawing in drawings().items():
        path = FOLDER / name
        if not path.exists() or saved(path) != drawing.text():
            save(drawing, path)
            print(f"docs/pictures/{name}")


if __name__ == "__main__":
    main()
