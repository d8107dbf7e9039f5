"""The kinds of things a deployment declares in YAML, each with the asset graph that it becomes."""

from orchestration.components.dataset import Dataset
from orchestration.components.permutation_swapping import PermutationSwapping

__all__ = ["Dataset", "PermutationSwapping"]
