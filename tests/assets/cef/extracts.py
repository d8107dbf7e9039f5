"""Extracts as IPUMS writes them: a DDI codebook, and its records as fixed-width text. The content is made up."""

import gzip
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr


@dataclass(frozen=True)
class Variable:
    """A variable of a codebook; `household` and `person` are its concepts, and `types` its record types."""

    name: str
    width: int
    label: str = ""
    codes: Mapping[str, str] = field(default_factory=dict)
    decimals: int = 0
    text: bool = False
    household: bool = False
    instructions: str = ""
    types: str = ""


HOUSEHOLD = (
    Variable("YEAR", 4, "Census year", household=True),
    Variable("SAMPLE", 6, "IPUMS sample identifier", {"202101": "2021 ACS", "202102": "2021 PRCS"}, household=True),
    Variable("SERIAL", 8, "Household serial number", household=True),
    Variable("HHWT", 10, "Household weight", decimals=2, household=True),
    Variable("STATEFIP", 2, "State (FIPS code)", {"01": "Alabama", "02": "Alaska", "06": "California"}, household=True),
    Variable("GQ", 1, "Group quarters status", {"0": "Vacant unit", "1": "Households"}, household=True),
)
PERSON = (
    Variable("PERNUM", 4, "Person number in sample unit"),
    Variable("PERWT", 10, "Person weight", decimals=2, instructions="PERWT Codes\n9999.99 = N/A\n"),
    Variable("SEX", 1, "Sex", {"1": "Male", "2": "Female", "9": "Missing/blank"}),
    Variable("AGE", 3, "Age"),
    Variable("OCC", 4, "Occupation", text=True),
    Variable("INCTOT", 7, "Total personal income", instructions="INCTOT Specific Variable Codes\n9999999 = N/A\n"),
)
KINDS = {"H": "Household Record", "P": "Person Record"}
"""The types of records in a hierarchical extract, with their labels."""


def lay_out(variables: Sequence[Variable], hierarchical: bool = False) -> dict[str, int]:
    """The bytes of a line before each variable."""
    starts: dict[str, int] = {}
    ends: dict[str, int] = {}
    for variable in variables:
        kinds = variable.types.split() if hierarchical else [""]
        start = max(ends.get(kind, 0) for kind in kinds)
        starts[variable.name] = start
        ends |= dict.fromkeys(kinds, start + variable.width)
    return starts


def write_codebook(
    path: Path,
    variables: Sequence[Variable],
    hierarchical: bool = False,
    data_file: str | None = None,
    charset: str = "ISO-8859-1",
    kinds: Mapping[str, str] = KINDS,
) -> Path:
    parts = []
    for variable in variables:
        start = lay_out(variables, hierarchical)[variable.name]
        categories = "".join(
            f"<catgry><catValu>{code}</catValu><labl>{escape(label)}</labl></catgry>"
            for code, label in variable.codes.items()
        )
        types = f" rectype={quoteattr(variable.types)}" if hierarchical else ""
        instructions = f"<codInstr><![CDATA[{variable.instructions}]]></codInstr>" if variable.instructions else ""
        parts.append(
            f'<var ID="{variable.name}" dcml="{variable.decimals}" files="ExtractData" intrvl="discrete" '
            f'name="{variable.name}"{types}><location EndPos="{start + variable.width}" StartPos="{start + 1}" '
            f'width="{variable.width}"/><labl>{escape(variable.label)}</labl><txt><![CDATA[Words.]]></txt>{categories}'
            f'{instructions}<concept vocab="IPUMS">Variables -- {"HOUSEHOLD" if variable.household else "PERSON"}'
            f'</concept><varFormat schema="other" type="{"character" if variable.text else "numeric"}"/></var>'
        )
    key = ' keyvar="SERIAL"'
    groups = "".join(
        f'<recGrp{key * (number < len(kinds))} recidvar="RECTYPE" rectype="{kind}"><labl>{label}</labl></recGrp>'
        for number, (kind, label) in enumerate(reversed(kinds.items()), 1)
    )
    structure = (
        f'<fileStrc type="hierarchical">{groups}</fileStrc>' if hierarchical else '<fileStrc type="rectangular"/>'
    )
    path.write_text(
        '<?xml version="1.0" encoding="UTF-8"?>\n<codeBook xmlns="ddi:codebook:2_5" version="2.5"><stdyDscr><citation>'
        '<serStmt><serName abbr="usa">IPUMS USA</serName><serInfo>DOI</serInfo></serStmt></citation><dataAccs><useStmt>'
        "<citReq>Cite.</citReq><conditions>Conditions.</conditions></useStmt></dataAccs></stdyDscr>"
        f'<fileDscr ID="ExtractData"><fileTxt><fileName>{data_file or path.with_suffix(".dat").name}</fileName>'
        f"<fileCont>Microdata records</fileCont>{structure}"
        f'<fileType charset="{charset}">data file</fileType><format>fixed length fields</format><filePlac>IPUMS'
        f"</filePlac></fileTxt></fileDscr><dataDscr>{''.join(parts)}</dataDscr></codeBook>\n",
        encoding="utf-8",
    )
    return path


def write_record(variables: Sequence[Variable], values: Mapping[str, str]) -> str:
    """A line: numbers to the right of their field, texts to the left of it; the point of decimals is not written."""
    return "".join(
        (values[each.name].ljust if each.text else values[each.name].replace(".", "").rjust)(each.width)
        for each in variables
    )


def write_lines(path: Path, lines: Sequence[str], end: str = "\n") -> Path:
    content = "".join(line + end for line in lines).encode("latin-1")
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path
