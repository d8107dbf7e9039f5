"""What `dg scaffold defs` writes: for each component a complete example with comments, instead of empty attributes.

The examples are in `orchestration/components/examples`, a file each, named like the component. The names of dataset and
release follow from the folder: `dg scaffold defs …PermutationSwapping town/tenure` declares the release town/tenure.
"""

from pathlib import Path

import dagster as dg

from orchestration.proposal import proposed_name

EXAMPLES = Path(__file__).with_name("examples")

DATASET = "dataset"
"""The folder of a dataset's own declaration, below that of the dataset."""


class ExampleScaffolder(dg.Scaffolder):
    """Writes the example of a component into its `defs.yaml`."""

    def scaffold(self, request: dg.ScaffoldRequest) -> None:
        """Write the example, or what Dagster writes for a component without one or for a Python file."""
        example = EXAMPLES / f"{request.type_name.rpartition('.')[2]}.yaml"
        if request.scaffold_format != "yaml" or not example.exists():
            dg.scaffold_component(request)
            return
        file = request.target_path if request.append else request.target_path / "defs.yaml"
        text, folder = example.read_text(encoding="utf-8"), file.parent
        below_dataset = "{release}" in text or folder.name == DATASET
        names = {
            "{type}": request.type_name,
            "{dataset}": proposed_name(folder.parent.name if below_dataset else folder.name),
            "{release}": proposed_name(folder.name),
        }
        for field, name in names.items():
            text = text.replace(field, name)
        with file.open("a" if request.append else "w", encoding="utf-8") as written:
            written.write(f"---\n{text}" if request.append else text)
