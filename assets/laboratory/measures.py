"""The attackers and measures of a laboratory, under their names in declarations and results. The computations are
elsewhere: attacks in `attacks`, measures in `evaluation` and `utility`."""

from collections.abc import Mapping, Set

RECONSTRUCT, LINK, LIKELIEST, MARGIN, UNDO, AWARE, AWARE_OF_HOUSEHOLDS, POOR_LINK = (
    "reconstruct",
    "link",
    "likeliest",
    "margin",
    "undo",
    "aware",
    "aware_of_households",
    "poor_link",
)
DIFFERENCE, PAIRS = "difference", "pairs"
BASELINE, TABLES = "none", "tables"
"""In place of an attack: guessers without a publication, and measures of the publication itself."""

ATTACKERS: Mapping[str, str] = {
    RECONSTRUCT: "knows nothing but the publication, and writes down the records behind exact tables",
    LINK: "knows everybody's block, sex and age, and matches them with published or reconstructed records, or infers "
    "the posterior of the unknown values from perturbed counts or measurements",
    LIKELIEST: "knows what link knows, and finds the likeliest records of a block behind perturbed counts or sums",
    MARGIN: "knows what link knows, and draws from the published shares of the block alone",
    DIFFERENCE: "knows all other records, and tries each category for the person (by its posterior under noise or a "
    "p-table; without randomness, in the first draw only)",
    PAIRS: "knows all records but whether two were exchanged, and takes the likelihood ratio of the two worlds",
    UNDO: "works like link, and then matches the persons without a record in their own block with the unmatched "
    "records of the tract's other blocks",
    AWARE: "works like link, and knows the swap rate, which gives the probability that a person stayed in the block or "
    "is among the records of another",
    AWARE_OF_HOUSEHOLDS: "works like aware, and knows who lives together and therefore moves together",
    POOR_LINK: "works like link, with a file of persons in which 7% are missing, 58% are in another block, 12% have a "
    "wrong age and 1% a wrong sex: about 37% of it is right, and only persons in it are named",
}
"""By attacker, the attacker's knowledge and method."""
GUESSERS = (LINK, MARGIN, LIKELIEST, UNDO, AWARE, AWARE_OF_HOUSEHOLDS, POOR_LINK)
"""The attackers who guess each person's unknown values, as a researcher's own attack does."""
UNDOING = (UNDO, AWARE, AWARE_OF_HOUSEHOLDS)
"""The guessers who look for swapped persons in all blocks."""
LINKING = (LINK, LIKELIEST, *UNDOING)
"""The guessers among whom, with a researcher's own attacks, a picture shows the most successful one."""

MATCH_RATE, PROVABLE, GAIN = "match rate", "provable", "gain"
POSTERIOR_RATIO = "posterior to prior"
POSTERIOR_RATIO_95, POSTERIOR_RATIO_GREATEST = "posterior to prior, 95th percentile", "posterior to prior, greatest"
OVER_GUESSER = "over the guesser"
TRUE_OVER_HALF, TRUE_OVER_90 = "true category over 0.5", "true category over 0.9"
WITHIN_ONE_ERROR, ADVANTAGE = "agreement with one error", "advantage"
IN_INTERVALS, WIDTH = "in 90% intervals", "width of 90% intervals"

_RATIO = (
    "of an attacker who knows all other records, the posterior probability of the true category, divided by that "
    "before the publication, which is the same for all categories of the block group"
)
_OF_GUESSES: Mapping[str, str] = {
    "named": "share of persons whom the attack names a category for",
    "confirmed": "share of persons whose category it names rightly",
    "precision": "confirmed / named",
    "sure": "share of persons of whom the attack gives one category a probability of 0.95 or more",
    "precision if sure": "confirmed of these",
    TRUE_OVER_HALF: "share of persons to whose true category the attack gives a probability over 0.5",
    TRUE_OVER_90: "the same over 0.9",
    "accuracy": "share of persons whose category it names rightly, with its fallback for all whom it cannot match",
    OVER_GUESSER: "accuracy less that of drawing a category from the others of the block",
    GAIN: "accuracy in the world with the person less accuracy in the world without the person, same randomness",
    POSTERIOR_RATIO: f"{_RATIO}: the mean over targets",
    POSTERIOR_RATIO_95: f"{_RATIO}: the 95th percentile over the targets of a draw of a tract",
    POSTERIOR_RATIO_GREATEST: f"{_RATIO}: the greatest among the targets of a draw of a tract",
}
_OF_GUESSERS: Mapping[str, str] = {
    "mode of others": "accuracy of naming the most frequent category among the others of the block",
    "share of others": "accuracy of drawing a category from the others of the block",
    "share of tract": "accuracy of drawing a category from the others of the tract",
    "chance agreement": "share of records right by chance, if each block's are drawn from the shares of the tract",
    "chance of keys": "share of these whose key, as in files, is right by chance, matched one to one",
    "chance of keys, with replacement": "share of these whose key somebody in the block has",
}
_OF_RECONSTRUCTIONS: Mapping[str, str] = {
    "agreement": "share of records that a reconstruction has right: Σ min / N; in T3, by group of ages",
    "agreement in years": "the same by single years of age",
    "agreement within a year": "the same where records of ages that differ by a year agree too, matched one to one",
    WITHIN_ONE_ERROR: "the same where, of those left, records agree too that also differ in one of sex, Hispanic "
    "origin and the six races",
    "solution variability": "share of records in which some other reconstruction differs, weighted by persons; in T3, "
    "by group of ages, each block by itself within the tract's counts",
    "solution variability in years": "the same by single years of age, all blocks of the tract together",
    "determined": "share of persons in blocks of one solution",
    MATCH_RATE: "share of kinds of records of a block that the block has, among the first of a ranking or those of a "
    "confidence: how many of 20 reconstructions have the kind. Kinds are a block's types of persons",
    PROVABLE: "share of records that are certain to be among those that were tabulated",
}
_OF_POSTERIORS = (POSTERIOR_RATIO, POSTERIOR_RATIO_95, POSTERIOR_RATIO_GREATEST)
_IN_YEARS = ("agreement in years", "agreement within a year", WITHIN_ONE_ERROR, "solution variability in years")
_OF_TABLES: Mapping[str, str] = {
    "mean absolute error": "mean of |published − true| over the cells of this true size, by race, ethnicity and frame",
    "root mean squared error": "root of the mean of their squares",
    "mean error": "mean of published − true: the bias",
    "mean relative error": "mean of |published − true| / true",
    "mean relative error with 0": "the same over all cells; if the true one is 0, relative to half of the published "
    "one, as the Census Bureau does: 200% for each that is not 0",
    "mean signed relative error": "mean of (published − true) / true",
    "relative root mean squared error": "the root mean squared error / the mean of the true cells",
    "error of shares": "Σ |published share − true share| of the persons of the tract (or county) who are in each place "
    "of a level",
    "off by over 5%": "share of cells with |published − true| over 5% of the true one",
    "off by over 10%": "the same over 10%",
    "off by over 200": "share of cells with |published − true| over 200",
    IN_INTERVALS: "share of the counts of a block in their 90% interval: that of the noise, if it is published; of "
    "microdata by TopDown or the DHC, in the first draw, that of ten replicates, as their releases publish it",
    WIDTH: "the mean width of these intervals",
    "below 0": "share of published cells that are negative",
    "of 1 or 2": "share of published cells that are 1 or 2",
    "of one race": "share of rows with persons that have a single count which is not 0: who is known to be in the row "
    "has this race",
    "not additive": "share of blocks in which the totals of P1 and P2 differ",
    "no occupied unit": "share of blocks with persons outside group quarters (P1 above P5) but no occupied unit (H1)",
    "empty household types": "share of the types of households in a block (all, families, owners and renters, by the "
    "householder's race or ethnicity) with persons but no household, or a household but no persons, among those with "
    "either; in T4-households",
    "first block group": "1 if the same block group has the greatest share of persons who are not of the tract's most "
    "frequent category",
    "deviation of districts": "mean of |published − true| / true persons of four districts of blocks, grouped at "
    "random five times",
    "association, change": "Cramér's V of block and category, published less true, negative counts taken for 0",
    "segregation, change": "the dissimilarity index of the most frequent category and all others between blocks, "
    "published less true",
    "total variation": "½ Σ |published share − true share| of the categories of a block, weighted by persons",
}
_OF_FILES: Mapping[str, str] = {
    "key of fewer than 2": "share of the records of a file that alone have their key: block, and what the attacker "
    "knows beforehand. Files are microdata, and the records that exact tables count",
    "key of fewer than 3": "share of those with fewer than 3 records of their key",
    "key of fewer than 5": "with fewer than 5",
    "individual risk": "mean of 1 / the number of records of the same key: the chance to find a record by its key",
    "one category": "share of records whose key has several records, all of one category",
    "special unique": "share of records that are the only one of the tract with their values of one or two of block, "
    "sex, age, race and ethnicity, as far as the tier has them; in T4-households, of block, frame and category",
    "score of special uniques": "mean score of minimal sample uniques of up to three of these variables",
    "nearer to the truth": "share of records that differ in fewer of these variables from some true record of the "
    "block than from as many of another tract, ties half: about 0.5 for a file that knows nothing of the block",
}
_OF_PAIRS: Mapping[str, str] = {
    "ln ratio, median": "median of |ln of the likelihood ratio| of two worlds that differ by one exchange",
    "ln ratio, greatest": "the greatest of these in a draw",
    "ln ratio, infinite": "the share of these that are infinite; median and greatest are of the others. Of pair "
    "swapping, the share of those that are certain to be, if no two households are alike",
    "ln ratio, bound": "what the method's theorem says that none exceeds",
    ADVANTAGE: "2 · mean posterior probability of the true one of the two worlds − 1, each a half before; 0 is none",
}
MEASURES: Mapping[str, str] = {
    **_OF_GUESSES,
    **_OF_GUESSERS,
    **_OF_RECONSTRUCTIONS,
    **_OF_TABLES,
    **_OF_FILES,
    **_OF_PAIRS,
}
"""By measure, its description."""
FURTHER_MEASURES = (WITHIN_ONE_ERROR, ADVANTAGE)
"""The measures that are made only if they are declared."""


def find_obstacle(metric: str, tier: str, attackers: Set[str]) -> str:
    """Why none of the attackers has a measure in a tier; "" if one has."""
    if metric in _IN_YEARS and tier != "T3":
        return "only tier T3 has ages in years"
    if metric in _OF_RECONSTRUCTIONS and tier.startswith("T4"):
        return f"there is no reconstruction of records in tier {tier}"
    needed = set(attackers) | {TABLES}
    if metric in _OF_RECONSTRUCTIONS:
        needed = {RECONSTRUCT}
    elif metric in _OF_PAIRS:
        needed = {PAIRS}
    elif metric in _OF_POSTERIORS:
        needed = {DIFFERENCE}
    elif metric in _OF_GUESSES:
        needed = {*GUESSERS} - {POOR_LINK} if metric == GAIN else {*GUESSERS}
        needed |= {DIFFERENCE} if metric in ("accuracy", TRUE_OVER_HALF, TRUE_OVER_90) else set()
    if needed & (attackers | {TABLES}):
        return ""
    return f"none of its attackers is declared: {', '.join(name for name in ATTACKERS if name in needed)}"
