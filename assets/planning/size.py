"""The expected size of a declared dataset: from the parameters of a generated one, and else as the planner says.

The number of confidential records is not public, so nothing here looks at the records, their file or its length.
"""

from assets.cef.readers import MA1940_SIZES
from assets.cef.survey import SyntheticSurveyDeclaration, survey_size
from assets.cef.synthetic import SyntheticCensusDeclaration, synthetic_size
from assets.release.dataset import DatasetDeclaration, Reader, Size

_PERSONS_2020, _UNITS_2020 = 331_449_281, 140_498_736
"""The persons and the housing units of the 2020 Census, in the states and the District of Columbia."""

_PLACES_2020 = {
    "TABBLKST": 51,
    "TABBLKCOU": 3_143,
    "TABTRACTCE": 84_414,
    "TABBLKGRPCE": 239_780,
    "TABBLK": 8_132_968,
    "PLACEFP": 31_617,
    "AIANNHCE": 704,
}
"""Its places, by the column of the census layout that tells them apart. Source: the Census Bureau's tallies of
geographic entities."""


def expected_size(dataset: DatasetDeclaration, records: int | None = None) -> Size | None:
    """The expected size of a dataset; None if it is not known.

    Args:
        dataset: the dataset.
        records: the expected number of persons, or of units if the dataset has none; None if it is not given. Of units
            and places, there are as many for each person as in the 2020 Census.

    Raises:
        ValueError: if the number is not positive.
    """
    if records is not None:
        if records < 1:
            raise ValueError(f"records: {records} is not a number of records, 1 or more")
        return Size(records, 0) if dataset.persons is None else like_2020(records)
    if isinstance(dataset, SyntheticCensusDeclaration):
        return synthetic_size(dataset.generated)
    if isinstance(dataset, SyntheticSurveyDeclaration):
        return survey_size(dataset.generated)
    return Size(sum(MA1940_SIZES.values()), 0) if dataset.reader is Reader.MA1940 else None


def like_2020(persons: int) -> Size:
    """The size of a census in which there are as many housing units and places for each person as in 2020.

    Args:
        persons: the number of persons, at least 1.
    """

    def share(number: int) -> int:
        return max(1, -(-number * persons // _PERSONS_2020))

    return Size(share(_UNITS_2020), persons, {column: share(number) for column, number in _PLACES_2020.items()})
