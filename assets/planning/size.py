"""The expected size of a declared dataset: from the parameters of a generated one, and else as the planner says.

The number of confidential records is not public, so nothing here looks at the records, their file or its length.
"""

from assets.cef.generated import GeneratedDeclaration
from assets.cef.readers import MA1940_SIZES
from assets.release.dataset import DatasetDeclaration, Reader
from assets.release.size import Size, like_2020


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
    if isinstance(dataset, GeneratedDeclaration):
        return dataset.generated.size
    return Size(sum(MA1940_SIZES.values()), 0) if dataset.reader is Reader.MA1940 else None
