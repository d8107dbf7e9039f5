"""A publication as a dataset of DCAT-AP 3, in JSON-LD, for data catalogs.

All content follows from `datapackage.json`, so that the folder of publications suffices to list them all. Addresses are
relative to the file, because this module does not know where publications are served.
"""

import json
from collections.abc import Mapping
from typing import Any

from assets.texts import describe_public
from resources.chain import NOT_CHARGED

CONTEXT = {
    "dcat": "http://www.w3.org/ns/dcat#",
    "dct": "http://purl.org/dc/terms/",
    "foaf": "http://xmlns.com/foaf/0.1/",
    "spdx": "http://spdx.org/rdf/terms#",
    "vcard": "http://www.w3.org/2006/vcard/ns#",
    "xsd": "http://www.w3.org/2001/XMLSchema#",
}


def to_dcat(package: bytes) -> bytes:
    """The text of `dcat.jsonld`, from the text of `datapackage.json`."""
    graph = {"@context": CONTEXT} | describe_dataset(json.loads(package))
    return (json.dumps(graph, ensure_ascii=False, indent=2) + "\n").encode()


def describe_dataset(package: Mapping[str, Any], folder: str = "") -> dict[str, Any]:
    """A data package as a `dcat:Dataset`, a node of JSON-LD whose names have the prefixes of DCAT-AP.

    Args:
        folder: the path from the file with the node to the publication, with a slash at its end; "" within the
            publication.
    """
    (license_,) = package.get("licenses", [{}])
    (contributor,) = package.get("contributors", [{}])
    license_node = (
        {"dct:license": {"@id": license_.get("path") or f"https://spdx.org/licenses/{license_['name']}"}}
        if license_
        else {}
    )
    node: dict[str, Any] = {
        "@id": f"{folder}datapackage.json",
        "@type": "dcat:Dataset",
        "dct:identifier": package["name"],
        "dct:title": package["title"],
        "dct:description": f"{package['description'] or package['title']} {find_public(package)}".rstrip(),
        "dcat:version": package["version"],
        "dct:issued": _date(package["created"]),
        "dct:provenance": {"@type": "dct:ProvenanceStatement", "@id": f"{folder}certificate.html"},
        "dcat:distribution": [
            _describe_file(resource, folder, package["created"]) | license_node for resource in package["resources"]
        ],
    }
    if contributor:
        node["dct:publisher"] = {"@type": "foaf:Agent", "foaf:name": contributor["title"]}
    if contact := contributor.get("path") or contributor.get("email"):
        kind = "vcard:hasURL" if "path" in contributor else "vcard:hasEmail"
        address = contact if "path" in contributor else f"mailto:{contact}"
        node["dcat:contactPoint"] = {
            "@type": "vcard:Organization",
            "vcard:fn": contributor["title"],
            kind: {"@id": address},
        }
    return node


def find_public(package: Mapping[str, Any]) -> str:
    """A sentence that the data of a package are public and were not charged; "" otherwise."""
    sources = (source["title"] for source in package.get("sources", ()) if source.get("description") == NOT_CHARGED)
    return "".join(f"{describe_public(source)}." for source in sources)


def _describe_file(resource: Mapping[str, Any], folder: str, created: str) -> dict[str, Any]:
    address = {"@id": f"{folder}{resource['path']}"}
    algorithm, _, digest = resource["hash"].partition(":")
    return {
        "@type": "dcat:Distribution",
        "dct:title": resource["title"],
        "dct:issued": _date(created),
        "dcat:accessURL": address,
        "dcat:downloadURL": address,
        "dcat:mediaType": {
            "@id": f"https://www.iana.org/assignments/media-types/{resource['mediatype'].split(';')[0]}"
        },
        "dcat:byteSize": {"@type": "xsd:nonNegativeInteger", "@value": str(resource["bytes"])},
        "spdx:checksum": {
            "@type": "spdx:Checksum",
            "spdx:algorithm": {"@id": f"spdx:checksumAlgorithm_{algorithm}"},
            "spdx:checksumValue": {"@type": "xsd:hexBinary", "@value": digest},
        },
    }


def _date(time: str) -> dict[str, str]:
    return {"@type": "xsd:dateTime", "@value": time}
