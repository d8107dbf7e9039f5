"""The components: every kind of dataset and release, and the settings, that a deployment can declare in YAML."""

from orchestration.components.census_dataset import CensusDataset
from orchestration.components.dataset import Dataset
from orchestration.components.pair_swapping import PairSwapping2010
from orchestration.components.phsafe import PHSafe
from orchestration.components.publisher import PublisherSettings
from orchestration.components.safetab import SafeTabH, SafeTabP
from orchestration.components.safetab_dataset import SafeTabDataset
from orchestration.components.swapping import PermutationSwapping
from orchestration.components.synthetic_census import SyntheticCensus
from orchestration.components.synthetic_survey import SyntheticSurvey
from orchestration.components.table_builder import TableBuilder
from orchestration.components.topdown import TopDown

__all__ = [
    "CensusDataset",
    "Dataset",
    "PHSafe",
    "PairSwapping2010",
    "PermutationSwapping",
    "PublisherSettings",
    "SafeTabDataset",
    "SafeTabH",
    "SafeTabP",
    "SyntheticCensus",
    "SyntheticSurvey",
    "TableBuilder",
    "TopDown",
]
