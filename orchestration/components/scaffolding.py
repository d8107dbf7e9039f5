"""The common parts of all components: the check of their attributes as a declaration, and a complete example of each.

`dg scaffold defs` and, for a census, `stirred new release` write the example with its comments. The folder determines
the names of dataset and release: `dg scaffold defs …PermutationSwapping town/tenure` declares town/tenure.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import dagster as dg
from pydantic import BaseModel

from assets.conventions import OWNERS
from mechanisms.states import PUERTO_RICO
from orchestration.proposal import propose_name

EXAMPLES = Path(__file__).with_name("examples")

DATASET = "dataset"
"""The folder of a dataset's own declaration, inside the dataset's folder."""


def fill_in_example(
    component: str,
    dataset: str,
    release: str,
    states: Sequence[object] = ("01", "02"),
    persons: str = "persons",
    redistricting: str = "redistricting",
) -> str:
    """The example of a component, given by its full name, for this dataset and release, with the states of the dataset,
    its release of detailed groups of persons, and its redistricting release."""
    text = (EXAMPLES / f"{component.rpartition('.')[2]}.yaml").read_text(encoding="utf-8")
    filled = {"type": component, "dataset": dataset, "release": release, "persons": persons}
    filled["redistricting"] = redistricting
    codes = list(map(str, states))
    filled["states"] = json.dumps(codes)
    # For a component that releases Puerto Rico separately.
    filled["states_apart"] = json.dumps([code for code in codes if code != PUERTO_RICO] or codes)
    for field, value in filled.items():
        text = text.replace(f"{{{field}}}", value)
    return text


class ExampleScaffolder(dg.Scaffolder):
    """Writes the example of a component into its `defs.yaml`."""

    def scaffold(self, request: dg.ScaffoldRequest) -> None:
        """Write the example, or Dagster's own output for a component without an example or for a Python file."""
        example = EXAMPLES / f"{request.type_name.rpartition('.')[2]}.yaml"
        if request.scaffold_format != "yaml" or not example.exists():
            dg.scaffold_component(request)
            return
        file = request.target_path if request.append else request.target_path / "defs.yaml"
        folder = file.parent
        below_dataset = "{release}" in example.read_text(encoding="utf-8") or folder.name == DATASET
        dataset = propose_name(folder.parent.name if below_dataset else folder.name)
        text = fill_in_example(request.type_name, dataset, propose_name(folder.name))
        with file.open("a" if request.append else "w", encoding="utf-8") as written:
            written.write(f"---\n{text}" if request.append else text)


@dg.scaffold_with(ExampleScaffolder)
@dataclass
class DeclaredComponent(dg.Component, dg.Resolvable):
    """A component whose attributes form a declaration."""

    declaration: Any

    declared_by: ClassVar[type[BaseModel]]
    """The attributes."""
    produces: ClassVar[Sequence[str]] = ()
    """The kinds of its definitions, for Dagster."""

    @classmethod
    def model(cls) -> type[BaseModel]:
        """The attributes, as `dg check yaml` validates them."""
        return cls.declared_by

    @classmethod
    def resolve_from_model(cls, context: dg.ResolutionContext, model: BaseModel) -> Self:
        """The component for a declaration. Template variables are not filled in."""
        return cls(cls.declared_by.model_validate(model))

    @classmethod
    def get_spec(cls) -> dg.ComponentTypeSpec:
        return dg.ComponentTypeSpec(owners=OWNERS, produces=list(cls.produces))


class JobComponent(DeclaredComponent, ABC):
    """A component whose job makes results from a dataset without a draw of its own, such as a laboratory."""

    @property
    def named(self) -> str:
        """The name under which it is declared, `dataset/name`."""
        return f"{self.declaration.dataset}/{self.declaration.name}"

    @property
    def job(self) -> str:
        return self.named.replace("/", "__")

    @property
    @abstractmethod
    def in_words(self) -> str:
        """Its kind, that it charges nothing, and the place of its results, for a user who asks for a release."""

    @abstractmethod
    def require(self, datasets: Mapping[str, Any], others: Sequence[Any]) -> None:
        """Raise DeclarationError unless it can be made from the other declarations: datasets by name, and components
        that declare releases."""
