"""A cube in SDMX: its structures and its cells in SDMX-ML 3.1, and its cells in SDMX-CSV 2.1.

The figures are measures, and their errors are attributes related to the measures. Each cell has an observation status
(estimated value or normal value, missing, suppressed) and a confidentiality status: free, or not for publication if the
cell is suppressed.

`pysdmx` validates the structures against the schema, and reads them back. Its own writers are not used: they do not
support parents of codes, hold all cells in memory, drop zeros at the end of decimals, and write apostrophes as
quotation marks.
"""

import csv
from collections.abc import Iterator
from pathlib import Path
from xml.etree.ElementTree import iterparse
from xml.sax.saxutils import quoteattr

from assets.publication.cube import CONF_STATUS, OBS_STATUS, Cube, Heading, require_written, title_column
from assets.release.prose import load_template
from assets.release.published import PublishedColumn
from assets.texts import show_lines
from resources.statements import quote_literal
from resources.warehouse import Session

_SCHEMAS = "http://www.sdmx.org/resources/sdmxml/schemas/v3_1"

_STATUSES = {
    OBS_STATUS: (
        "Observation status",
        "2.3",
        {"A": "Normal value", "E": "Estimated value", "O": "Missing value", "Q": "Missing value; suppressed"},
    ),
    CONF_STATUS: (
        "Confidentiality status",
        "1.4",
        {"F": "Free (free for publication)", "N": "Not for publication, restricted for internal use only"},
    ),
}
"""The code lists of SDMX by concept: title, version, and the codes that may occur."""

_TYPES = {"integer": "Long", "decimal": "Decimal", "boolean": "Boolean", "date": "GregorianDay", "string": "String"}

_DATA_HEAD = """<?xml version="1.0" encoding="UTF-8"?>
<mes:StructureSpecificData xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xmlns:mes="{schemas}/message" \
xmlns:ss="{schemas}/data/structurespecific" xmlns:com="{schemas}/common" xmlns:ns1="{urn}:ObsLevelDim:AllDimensions">
<mes:Header>
<mes:ID>{flow}</mes:ID>
<mes:Test>false</mes:Test>
<mes:Prepared>{prepared}</mes:Prepared>
<mes:Sender id="{sender}"/>
<mes:Structure structureID="{flow}" namespace="{urn}" dimensionAtObservation="AllDimensions">
<com:StructureUsage>{urn}</com:StructureUsage>
</mes:Structure>
</mes:Header>
<mes:DataSet ss:structureRef="{flow}" xsi:type="ns1:DataSetType" action="Information">
"""
_DATA_END = "</mes:DataSet>\n</mes:StructureSpecificData>\n"


def write_sdmx(session: Session, folder: Path, cube: Cube, heading: Heading) -> list[Path]:
    """Write `<name>.structure.xml`, `<name>.sdmx.csv` and `<name>.sdmx.xml`, and read them back.

    Raises ValueError if a file does not read back as written.
    """
    # The name and version of a structure are unique for an agency, across all its releases.
    name, version = f"{heading.release.schema}__{cube.table.name}".upper(), f"{heading.edition}.{heading.revision}.0"
    paths = [folder / f"{cube.table.name}.{end}" for end in ("structure.xml", "sdmx.csv", "sdmx.xml")]
    structure, as_csv, as_xml = paths
    about = {
        "agency": heading.agency,
        "sender": heading.agency.partition(".")[0],
        "prepared": heading.charged_at.strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    structure.write_text(_describe(cube, name=name, version=version, **about), encoding="utf-8", newline="\n")
    _require_structures(structure, cube, name)

    columns, reference = cube.names_by_id, f"{heading.agency}:DF_{name}({version})"
    session.run(
        "publication/sdmx_csv",
        columns=list(columns.items()),
        cells=cube.cells,
        order=cube.place_names,
        structure=quote_literal(reference),
        path=quote_literal(as_csv),
    )
    with as_xml.open("w", encoding="utf-8", newline="\n") as file:
        urn = f"urn:sdmx:org.sdmx.infomodel.datastructure.Dataflow={reference}"
        file.write(_DATA_HEAD.format(schemas=_SCHEMAS, urn=urn, flow=f"DF_{name}", **about))
        for cell in cube.read(session, *columns.values()):
            texts = (f"{id_}={quoteattr(text)}" for id_, text in zip(columns, cell, strict=True) if text is not None)
            file.write(f"<Obs {' '.join(texts)}/>\n")
        file.write(_DATA_END)
    for path, read in ((as_csv, _read_csv), (as_xml, _read_xml)):
        require_written(session, cube, path, read(path, list(columns)), columns.values())
    return paths


def _describe(cube: Cube, **about: str) -> str:
    template = load_template(Path(__file__).with_name("structures.xml"), escape=True, legal=_legal)
    measures = {figure.column.name: figure.id for figure in cube.measures}
    errors = [(figure.id, figure.column, measures[figure.column.error_of]) for figure in cube.errors]
    concepts = {dimension.id: (dimension.title, _words(*dimension.columns)) for dimension in cube.dimensions}
    concepts |= {figure.id: (figure.title, _words(figure.column)) for figure in cube.figures}
    concepts |= {id_: (title_column(column), _words(column)) for id_, column in cube.attributes.items()}
    return template.render(
        cube=cube,
        notes="\n".join(cube.notes),
        schemas=_SCHEMAS,
        types=_TYPES,
        statuses=_STATUSES,
        concepts=concepts | {id_: (title, "") for id_, (title, _, _) in _STATUSES.items()},
        attributes=[*errors, *((id_, column, "") for id_, column in cube.attributes.items())],
        **about,
    )


def _words(*columns: PublishedColumn) -> str:
    texts = [column.description for column in columns if column.description]
    return ". ".join([*texts, *(f"Unit: {column.unit}" for column in columns if column.unit)])


def _legal(text: str) -> str:
    """A text with � for each character that XML cannot represent."""
    return text if text.isprintable() else "".join(letter if _is_legal(letter) else "�" for letter in text)


def _is_legal(letter: str) -> bool:
    return letter in "\t\n\r" or " " <= letter < "\ufffe" or letter >= "\U00010000"


def _read_csv(path: Path, ids: list[str]) -> Iterator[tuple[str | None, ...]]:
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            yield tuple(row[id_] or None for id_ in ids)


def _read_xml(path: Path, ids: list[str]) -> Iterator[tuple[str | None, ...]]:
    data_set = None
    for event, element in iterparse(path, ("start", "end")):
        if element.tag != "Obs":
            data_set = element
        elif event == "end" and data_set is not None:
            yield tuple(map(element.get, ids))
            # Otherwise the element would keep all cells.
            data_set.clear()


def _require_structures(path: Path, cube: Cube, name: str) -> None:
    """Raise ValueError unless the structures satisfy their schema and have all codes with their labels."""
    from pysdmx.errors import Invalid
    from pysdmx.io import read_sdmx

    try:
        lists = {codes.id: codes for codes in read_sdmx(path, validate=True).get_codelists()}
    except Invalid as error:
        raise ValueError(f"{path.name}: the structures do not fit their schema ({error.title})") from None
    for dimension in cube.dimensions:
        read = [(code.id, (code.name or "").split()) for code in lists[f"CL_{name}__{dimension.id}"]]
        if read != [(code.id, show_lines(_legal(code.label)).split()) for code in dimension.codes]:
            raise ValueError(f"{path.name}: the codes of {dimension.id} do not read back as they are")
