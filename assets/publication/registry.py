"""A certificate as a record of the Privacy Deployments Registry, with the points of NIST SP 800-226.

The models have the fields, required fields and permitted words of the registry's schema
(`schemas/deployments-schema.yaml` of https://github.com/opendp/deployments-registry-data, as of 2026, which states no
license); its texts are not repeated here. Facts that a certificate lacks, such as the intended use, are placeholders.
The registry would take them for texts, so a person replaces them before sending the record.
"""

import re
from collections.abc import Iterator, Mapping
from fractions import Fraction
from math import nextafter
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field

from assets.publication.record import format_recorded
from mechanisms.refusal import RefusedError

_PLACEHOLDER = r"<fill in: [^<>]+>"
Placeholder = Annotated[str, Field(pattern=f"^{_PLACEHOLDER}$")]
Text = Annotated[str, Field(min_length=1)]


class RegistryError(RefusedError):
    """The publication is not a deployment of differential privacy."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", protected_namespaces=())


class Curator(_Part):
    data_curator_name: Text
    data_curator_type: Literal["Government", "Industry", "Nonprofit"] | Placeholder


class Basic(_Part):
    name: Text
    data_curators: Annotated[list[Curator], Field(min_length=1)]
    description: Text
    intended_use: Text
    data_product_type: Literal[
        "Summary statistics", "Machine learning model", "Dataset", "Synthetic data", "Interactive API", "SQL queries"
    ]
    data_product_region: Text
    data_product_sector: (
        Literal["Technology", "Healthcare", "Education", "Government", "Energy", "Finance"] | Placeholder
    )
    publication_date: Annotated[str, Field(pattern=r"^\d{4}-\d{2}-\d{2}$")]


class Variant(_Part):
    variant_name: Literal["Pure DP", "Approximate DP", "Zero-concentrated DP", "Renyi DP", "Custom"]
    data_domain: Text
    unprotected_quantities: Text


class PrivacyLoss(_Part):
    privacy_unit: Text
    privacy_unit_details: Text
    privacy_parameters: dict[Literal["epsilon", "delta", "rho"], float]
    privacy_parameters_details: Text


class Model(_Part):
    model_name: Literal["Local", "Central", "Shuffle", "Federated", "Varies"]
    trust_assumptions: Text
    actors: Text
    release_type: Literal["One release", "Many releases"]
    release_type_details: Text
    data_source_type: Literal["Static", "Dynamic"]
    access_type: Literal["Interactive", "Non-interactive"]


class Implementation(_Part):
    preprocessing_and_hyperparameter_tuning: Text
    mechanisms: Text
    composition: Text
    post_processing: Text
    justification: Text
    utility: Text
    additional_information: Text


class Citation(_Part):
    title: Text
    url: Text


class Evidence(_Part):
    evidence_source_type: Literal[
        "Peer-reviewed publication",
        "Formal publication by the deploying organization",
        "Authorized organizational attestation",
        "Other public source",
    ]
    misc: Citation


class Administrative(_Part):
    evidence_sources: dict[Annotated[str, Field(pattern=r"^\w+$")], Evidence]
    status: Literal["Draft", "Pending", "Changes Required", "Approved", "Converted"]
    registry_authors: Annotated[list[Text], Field(min_length=1)]
    tier: Literal[1, 2, 3]


class Deployment(_Part):
    basic: Basic
    dp_variant: Variant
    privacy_loss: PrivacyLoss
    deployment_model: Model
    implementation: Implementation
    administrative: Administrative


class RegistryRecord(_Part):
    """A record of the registry, of tier 3."""

    url_slug: Annotated[str, Field(pattern=r"^[a-z0-9-]+$")]
    deployment: Deployment


def describe_deployment(certificate: Mapping[str, Any]) -> RegistryRecord:
    """The record of a release, from its certificate as data.

    Raises:
        RegistryError: if its loss is infinite.
        pydantic.ValidationError: if the record does not fit the registry's schema.
    """
    release, loss, ledger = certificate["release"], certificate["loss"], certificate["ledger"]
    if loss["rounded_up"] is None:
        raise RegistryError("a release without a finite loss is no deployment of differential privacy")
    publisher, method, accuracy = certificate["publisher"], certificate["mechanism"], certificate["accuracy"]
    domain, multiverse, unit, measure, _ = (block["answer"] for block in certificate["specification"])
    curator = publisher["authority"] or _placeholder("the entity that publishes")
    charge = f"{format_recorded(loss)}, exactly {loss['exact']}"
    charged = format_recorded(ledger["total_at_publication"])
    total = (
        f"Public data, no budget charged: {certificate['dataset']['source']}"
        if ledger["cap"] is None
        else f"The population {ledger['population']} was charged {charged} by all releases "
        f"up to ledger entry {ledger['last_charge_at_publication']}, under a cap of {format_recorded(ledger['cap'])}. "
        f"{ledger['note']}"
    ).strip()
    lines = len(loss["lines"])
    composition = f"{loss['source']}. " + (
        f"{lines} independent measurements add up to the loss. " if lines > 1 else ""
    )
    exact = [*certificate["invariants"]["held_fixed"], *certificate["invariants"]["also_exact"]]
    editions = certificate["edition"]["all"]
    mechanisms = [
        f"{method['name']}. {method['method']}",
        *(_write_parameter(parameter) for parameter in method["parameters"]),
        f"Randomness: {certificate['randomness']['generator']}, with a key of its own for the draw, whose SHA-256 was "
        "committed to before the draw.",
        "Noise and selections are sampled exactly, from integers and rational numbers: no probability is rounded to a "
        "floating-point number.",
        "Versions: " + ", ".join(f"{name} {number}" for name, number in certificate["code_versions"].items()),
    ]
    custodian = (
        "Trusted: the curator, who holds the confidential records and the master key, and the machine that draws. "
        "Not trusted: whoever reads the publication, with any outside information and any computing power. "
    ) + certificate["randomness"]["replay"]
    synthetic = certificate["dataset"]["synthetic"]
    points = {
        **({"Records": "Synthetic: no record is about a real person."} if synthetic else {}),
        "Privacy unit": unit,
        "Neighboring data sets": f"{loss['meaning']} Multiverse: {multiverse}.",
        "Privacy parameters": f"{charge}, measured by the {measure}.",
        "Guarantee in words": loss["guarantee"]["sentence"],
        "Trust model": f"Central. {custodian}",
        "Threat model": "A reader who knows everything but the data of one unit. Out of scope: access to the "
        "confidential records, the keys or the machine, and timing.",
        "Mechanism": f"{method['name']}; " + "; ".join(paper["title"] for paper in method["papers"]),
        "Budget": total,
        "Composition": composition.strip(),
        "Unprotected": certificate["invariants"]["note"],
        "Utility": accuracy["summary"],
        "Bias": _placeholder("systemic, human and statistical bias that the office knows of"),
        "Security and access control": _placeholder("who can reach the confidential records, and how that is enforced"),
        "Data collection and retention": _placeholder("how long the confidential records are kept"),
        "Verification": f"{len(certificate['checks'])} blocking checks passed; files signed with the key "
        f"{certificate['signature']['public_key']}.",
    }
    return RegistryRecord.model_validate(
        {
            "url_slug": _slug(f"{release['title']} {publisher['authority'] or ''} {publisher['date'][:4]}"),
            "deployment": {
                "basic": {
                    "name": release["title"],
                    "data_curators": [
                        {
                            "data_curator_name": curator,
                            "data_curator_type": _placeholder("Government, Industry or Nonprofit"),
                        }
                    ],
                    "description": release["description"] or release["title"],
                    "intended_use": _placeholder("what the tables are used for"),
                    "data_product_type": "Summary statistics",
                    "data_product_region": _placeholder("the region that the data describe"),
                    "data_product_sector": _placeholder(
                        "Government, Healthcare, Education, Technology, Energy or Finance"
                    ),
                    "publication_date": publisher["date"],
                },
                "dp_variant": {
                    "variant_name": _variant(loss),
                    "data_domain": domain,
                    "unprotected_quantities": _bullets([*exact, certificate["invariants"]["note"]]),
                },
                "privacy_loss": {
                    "privacy_unit": unit.partition(":")[0],
                    "privacy_unit_details": f"{unit}. {loss['meaning']}",
                    "privacy_parameters": _parameters(loss),
                    "privacy_parameters_details": _bullets(
                        [f"{charge}. {loss['guarantee']['number']}", *_equivalents(loss)]
                    ),
                },
                "deployment_model": {
                    "model_name": "Central",
                    "trust_assumptions": custodian,
                    "actors": _placeholder(
                        "who handles the records, who reads the tables, and what is assumed of each"
                    ),
                    "release_type": "Many releases" if len(editions) > 1 else "One release",
                    "release_type_details": f"Editions so far: {len(editions)}. {total}",
                    "data_source_type": "Static",
                    "access_type": "Non-interactive",
                },
                "implementation": {
                    "preprocessing_and_hyperparameter_tuning": _placeholder(
                        "how the records were edited, how the parameters were chosen, and what loss that had"
                    ),
                    "mechanisms": _bullets(mechanisms),
                    "composition": f"{composition}{total}",
                    "post_processing": "Everything that is published follows from the draw, without another look at "
                    f"the records. {method['method']}",
                    "justification": _placeholder("why differential privacy, this method and this loss"),
                    "utility": f"{accuracy['summary']} {accuracy['note']}",
                    "additional_information": "The points of NIST SP 800-226:\n\n"
                    + _bullets([f"{name}: {words}" for name, words in points.items()]),
                },
                "administrative": {
                    "evidence_sources": {
                        f"paper_{number}": {
                            "evidence_source_type": "Other public source",
                            "misc": {"title": paper["title"], "url": paper["url"]},
                        }
                        for number, paper in enumerate(method["papers"], start=1)
                    },
                    "status": "Draft",
                    "registry_authors": [_placeholder("who writes this record")],
                    "tier": 3,
                },
            },
        }
    )


def to_yaml(record: RegistryRecord) -> str:
    """The record as the registry stores it: YAML, with texts of several lines as blocks."""
    return yaml.dump(record.model_dump(), Dumper=_Dumper, allow_unicode=True, sort_keys=False, width=10**6)


def list_placeholders(record: RegistryRecord) -> list[str]:
    """The placeholders that a person has to fill in, each with its field."""

    def walk(value: Any, path: str) -> Iterator[str]:
        if isinstance(value, Mapping):
            for name, part in value.items():
                yield from walk(part, f"{path}.{name}" if path else name)
        elif isinstance(value, list):
            for part in value:
                yield from walk(part, path)
        elif isinstance(value, str):
            yield from (f"{path}: {found[10:-1]}" for found in re.findall(_PLACEHOLDER, value))

    return list(walk(record.model_dump(), ""))


class _Dumper(yaml.SafeDumper):
    pass


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _represent_text)


def _placeholder(what: str) -> str:
    return f"<fill in: {what}>"


def _bullets(texts: list[str]) -> str:
    return "".join(f"- {text}\n" for text in (" ".join(text.split()) for text in texts) if text)


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def _write_parameter(parameter: Mapping[str, Any]) -> str:
    value = parameter["value"]
    text = ", ".join(value) if isinstance(value, list) else str(value)
    return f"{parameter['label']}: {text}. {parameter['note']}".strip()


def _variant(loss: Mapping[str, Any]) -> str:
    if loss["symbol"] == "ρ":
        return "Zero-concentrated DP"
    return "Approximate DP" if loss["delta"] else "Pure DP"


def _parameters(loss: Mapping[str, Any]) -> dict[str, float]:
    """The parameters as numbers, none below the exact value."""
    name = "rho" if loss["symbol"] == "ρ" else "epsilon"
    if not loss["delta"]:
        return {name: loss["rounded_up"]}
    exact = Fraction(loss["delta"]["exact"])
    delta = float(exact)
    return {name: loss["rounded_up"], "delta": delta if Fraction(str(delta)) >= exact else nextafter(delta, 1)}


def _equivalents(loss: Mapping[str, Any]) -> list[str]:
    stated = loss["equivalents"]
    authors = [conversion["authors"] for conversion in stated["conversions"]]
    return [
        f"{each['of']}: {format_recorded(each)}"
        + (
            f", which implies ε = {each['epsilons'][0]:.4f} at δ = {stated['delta']['value']:g} ({authors[0]})"
            if each["epsilons"]
            else ""
        )
        for each in stated["losses"]
    ]
