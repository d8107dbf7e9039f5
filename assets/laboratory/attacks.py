"""The attacks that the laboratory has built in. Each gets a publication and an attacker's file, and nothing else."""

from collections.abc import Callable
from typing import Any

import numpy as np

from assets.laboratory.publication import NONE, Guesses, NamedPersons, Publication, Reconstruction
from mechanisms.risk.matching import find_modes, match_persons
from mechanisms.risk.posterior import Law, expect_shares
from mechanisms.risk.reconstruction import System, measure_variability
from mechanisms.risk.tiers import RACES, Counts, Shares

Attack = Callable[[Publication, NamedPersons], Any]

_CERTAIN = 2.0
"""A total of noisy counts below so many of its standard deviations is taken for 0."""
_LEAST = 0.5
"""The persons in a tract that a category is given in a prior if none are published."""


def link(publication: Publication, persons: NamedPersons) -> Guesses:
    """Race and ethnicity of named persons, of whom block and frame are known: from exact tables by reconstruction and
    matching, from perturbed counts by their exact posterior. Whom it cannot match gets the mode of the block."""
    tier = publication.tier
    known = persons.count(len(publication.counts), len(tier.frames))
    if publication.law is None:
        shares = match_persons(known, _reconstruct(publication))
    else:
        shares, priors = np.zeros(publication.counts.shape), _estimate_priors(publication, publication.law)
        for block, frame in np.argwhere(known):
            published, number = publication.counts[block, frame], int(known[block, frame])
            shares[block, frame] = expect_shares(publication.law, published, priors[block], number)
    return Guesses(shares[persons.block, persons.frame], _find_modes(publication)[persons.block].argmax(axis=1))


def guess_by_margin(publication: Publication, persons: NamedPersons) -> Guesses:
    """A guess from the published shares of the block alone, without linking anybody."""
    margins = np.maximum(_margins(publication), 0)
    sums = margins.sum(axis=1, keepdims=True)
    shares = np.where(sums > 0, margins / np.maximum(1, sums), _find_modes(publication))
    return Guesses(shares[persons.block], np.full(len(persons.block), NONE))


def reconstruct(publication: Publication, provable: bool) -> Reconstruction:
    """The records behind exact tables, the solution variability of each block and, if wanted, the provable records."""
    histograms = _reconstruct(publication)
    variability, certain = np.zeros(len(histograms)), np.full(len(histograms), NONE)
    for block, counts in enumerate(publication.counts):
        system = System.of(publication.tier, counts)
        solution = histograms[block].ravel()[system.types]
        other = system.differ_most(solution)
        variability[block] = measure_variability(solution, other)
        if provable:
            certain[block] = system.count_provable(solution, other)
    return Reconstruction(histograms, variability, certain)


ATTACKS: dict[str, Attack] = {"link": link, "margin": guess_by_margin}


def _reconstruct(publication: Publication) -> Counts:
    tier = publication.tier
    histograms = np.zeros((len(publication.counts), np.prod(tier.shape)), dtype=np.int64)
    for block, counts in enumerate(publication.counts):
        system = System.of(tier, counts)
        histograms[block, system.types] = system.reconstruct()
    return histograms.reshape(-1, *tier.shape)


def _margins(publication: Publication, *, of_tract: bool = False) -> Counts:
    """The published persons by race and ethnicity, shape (blocks, categories)."""
    counts = publication.totals if of_tract else publication.counts
    if publication.law is not None:
        return np.asarray(counts.sum(axis=1))
    places = list(publication.tier.tables)
    races, others = (counts[:, publication.tier.table_of_cell == places.index(name)] for name in ("P1", "P2"))
    return np.hstack([others[:, :RACES], races - others[:, :RACES]])


def _find_modes(publication: Publication) -> Shares:
    return find_modes(_margins(publication), _margins(publication, of_tract=True))


def _estimate_priors(publication: Publication, law: Law) -> Shares:
    """π for each block, shape (blocks, categories), from what is published of the tract: never from the truth."""
    counts = publication.totals.sum(axis=1)
    least = _CERTAIN * law.standard_deviation * (publication.blocks * len(publication.tier.frames)) ** 0.5
    priors = np.maximum(np.where(counts > least, counts, 0), _LEAST)
    return np.asarray(priors / priors.sum(axis=1, keepdims=True))
