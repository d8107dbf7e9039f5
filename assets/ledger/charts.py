"""A picture of a population's releases side by side, as PNG bytes: bars, and the cap.

Each total has a panel with a bar for each release that it counts, one after another up to the sum. `comparison`
computes the values; the figures, the charges left out of a total, the invariants and all explanations are in `page`.
"""

from dataclasses import dataclass
from functools import cached_property
from textwrap import fill

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from assets.conventions import join_names
from assets.ledger.comparison import Share, find_conversion, takes_part
from assets.ledger.view import Budget
from assets.pictures import DOTS_PER_INCH, GRID, INK, QUIET, SERIES, VERMILION, WIDTH, png
from mechanisms.accounting.composition import compose_concentrated
from mechanisms.accounting.losses import ApproximateLoss, ConcentratedLoss, InfiniteLoss, Loss, PureLoss, format_loss
from resources.ledger import remaining

_EARLIER = "////"
"""The hatching of the bars of earlier charges."""
_ORDER = (PureLoss, ConcentratedLoss, ApproximateLoss)
_SMALL, _HEAD = 8.5, 10.5
_LINE = 0.155
"""The height of a line of labels, in inches."""
_LABEL, _HEADING, _FOOTER = 30, 62, 100
"""The most letters in a line of a label, of a title, and of the footer."""
_BEYOND = 1.04
"""The ratio of the axis to the longest bar or the cap."""


@dataclass(frozen=True)
class _Row:
    """The contribution of one release to a total, from its charges with one kind of loss.

    Attributes:
        bars: the length of each bar, and whether it is hatched as an earlier charge.
        joint: whether the release is converted together with others and has no separate contribution.
    """

    release: str
    label: str
    bars: list[tuple[float, bool]]
    joint: bool


@dataclass(frozen=True)
class _Panel:
    """A total to draw, and the cap in its output premetric if it is drawn as a line."""

    unit: str
    shares: tuple[Share, ...]
    total: Loss
    cap: Loss | None

    @property
    def title(self) -> str:
        return fill(f"{self.unit}, {format_loss(self.total)}: {self.total.output_premetric}", _HEADING)

    @cached_property
    def rows(self) -> list[_Row]:
        """A row for each release and kind of loss that counts; rows that are converted together come last.

        The ε that releases contribute together is divided among their bars in proportion to their ρ.
        """
        conversion = find_conversion(self.shares, self.total)
        groups: dict[tuple[bool, int, str], list[Share]] = {}
        for share in self.shares:
            if share.loss is not None:
                joint, kind = takes_part(share.loss, conversion), _ORDER.index(type(share.charge.specification.loss))
                groups.setdefault((joint, kind, share.charge.release), []).append(share)
        rows = []
        for joint, kind, release in sorted(groups, key=lambda group: group[:2]):
            shares = groups[joint, kind, release]
            losses = [share.loss for share in shares if share.loss is not None]
            bars = [(float(loss), not share.charge.latest) for loss, share in zip(losses, shares, strict=True)]
            if joint and conversion:
                whole = float(conversion.loss)
                part = float(compose_concentrated(losses)) / whole if whole else 0.0
                bars = [(float(conversion.epsilon) * part, False)]
            rows.append(_Row(release, _label(release, shares), bars, joint))
        return rows

    @property
    def labels(self) -> list[str]:
        return [*(row.label for row in self.rows), *(["Together"] if len(self.rows) != 1 else [])]


def _label(release: str, shares: list[Share]) -> str:
    specification = shares[-1].charge.specification
    times = f", charged {len(shares)} times" if len(shares) > 1 else ""
    # A long name is broken after an underscore.
    name = fill(release.replace("_", "_ "), _LABEL).replace("_ ", "_")
    return f"{name}\n{fill(f'{format_loss(specification.loss)}, one {specification.flavor.unit}{times}', _LABEL)}"


def draw_comparison(budget: Budget, title: str) -> bytes:
    """Draw the contribution of each release to every total.

    The cap is a line in the panel whose total equals the sum that counts against the cap. If no total does, that sum
    has a panel of its own. Infinite losses have no bar; they are named below the panels.

    Returns:
        PNG bytes, 1080 pixels wide.

    Raises:
        ValueError: if there are no charges.
    """
    if not budget.charges:
        raise ValueError("there is no charge to draw")
    names = dict.fromkeys(charge.release for charge in budget.charges)
    colors = {name: SERIES[number % len(SERIES)] for number, name in enumerate(names)}
    panels = _list_panels(budget)
    title, footer = fill(title, 58), "\n".join(fill(remark, _FOOTER) for remark in _write_footer(budget, panels))
    row = _LINE * (1 + max(label.count("\n") + 1 for panel in panels for label in panel.labels))
    words = sum(0.75 + 0.18 * panel.title.count("\n") for panel in panels) + 0.2 * (title + footer).count("\n")
    height = 0.6 + words + row * sum(len(panel.labels) for panel in panels)
    figure = Figure(figsize=(WIDTH, height), dpi=DOTS_PER_INCH, facecolor="white")
    figure.set_layout_engine("constrained", w_pad=0.08, h_pad=0.07, hspace=0)
    FigureCanvasAgg(figure)
    # Titles of datasets are not formulas, even if they contain dollar signs.
    figure.suptitle(title, x=0.02, ha="left", fontsize=13, fontweight="bold", color=INK, parse_math=False)
    figure.supxlabel(footer, x=0.02, ha="left", fontsize=_SMALL, color=INK, parse_math=False)
    heights = [len(panel.labels) for panel in panels]
    for panel, (axes,) in zip(panels, figure.subplots(len(panels), height_ratios=heights, squeeze=False), strict=True):
        _draw(axes, panel, colors)
    return png(figure)


def _list_panels(budget: Budget) -> list[_Panel]:
    comparison, cap, counted = budget.comparison, budget.cap, budget.total
    panels: list[_Panel] = []
    for total in comparison.totals:
        if not isinstance(total.loss, InfiniteLoss):
            capped = total.loss == counted and not any(panel.cap for panel in panels)
            panels.append(
                _Panel(f"One {total.unit}", comparison.list_shares(total), total.loss, cap if capped else None)
            )
    if cap and counted and not any(panel.cap for panel in panels):
        panels.append(_Panel("Against the cap, whatever the unit", comparison.list_shares_of_cap(cap), counted, cap))
    return sorted(panels, key=lambda panel: panel.cap is None)


def _write_footer(budget: Budget, panels: list[_Panel]) -> list[str]:
    remarks, rows = [], [row for panel in panels for row in panel.rows]
    if (cap := panels[0].cap) and budget.total:
        left = remaining(budget.total, cap)
        remarks.append(f"Dashed: the cap, {format_loss(cap)}. Dotted: {cap.symbol} = {left} is left.")
    if any(earlier for row in rows for _, earlier in row.bars):
        remarks.append("Hatched: earlier charges of the same release.")
    if any(sum(row.joint for row in panel.rows) > 1 for panel in panels):
        remarks.append("The converted ε is divided among its bars in proportion to their ρ.")
    if infinite := dict.fromkeys(charge.release for charge in budget.comparison.infinite):
        remarks.append(f"ε = ∞: without a finite loss, and without a bar: {join_names(list(infinite))}.")
    return remarks


def _draw(axes: Axes, panel: _Panel, colors: dict[str, str]) -> None:
    """Draw the bars in the order of the rows, each starting where the previous one ends."""
    last, total = len(panel.labels) - 1, float(panel.total)
    axes.set_title(panel.title, loc="left", fontsize=_HEAD, fontweight="bold", color=INK, parse_math=False)
    limit = _BEYOND * (max(total, float(panel.cap) if panel.cap else 0.0) or 1.0)
    axes.set_xlim(0, limit)
    axes.set_xticks([tick for tick in MaxNLocator(6).tick_values(0, limit) if tick <= limit])
    axes.set_ylim(last + 0.5, -0.5)
    axes.set_yticks(range(last + 1), panel.labels, parse_math=False)
    start = 0.0
    for position, row in enumerate(panel.rows):
        color = colors[row.release]
        for length, earlier in row.bars:
            fills, hatch = ("white", _EARLIER) if earlier else (color, None)
            axes.barh(position, length, 0.62, left=start, color=fills, edgecolor=color, hatch=hatch, lw=0.6, zorder=2)
            start += length
    if last == len(panel.rows):
        axes.barh(last, total, 0.62, color=INK, zorder=2)
        axes.get_yticklabels()[-1].set_fontweight("bold")
    if panel.cap:
        axes.hlines(last, total, float(panel.cap), VERMILION, "dotted", linewidth=1.8)
        axes.axvline(float(panel.cap), color=VERMILION, linestyle=(0, (4, 3)), linewidth=1.4, zorder=4)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(QUIET)
    axes.tick_params(labelsize=_SMALL, colors=QUIET, length=3)
    axes.tick_params(axis="y", labelcolor=INK, length=0)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.grid(axis="x", color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
