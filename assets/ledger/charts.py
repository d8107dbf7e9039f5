"""A picture of a population's releases side by side, as PNG bytes: bars, their figures, and the cap.

Each total has a panel with a bar for each release that it counts, one after the other up to the sum. `comparison`
computes what is drawn here; what a total leaves out, the invariants and all explanations are in `page`.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from textwrap import fill
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from assets.conventions import join_names
from assets.ledger.comparison import Share, find_conversion, takes_part
from assets.ledger.view import Budget
from assets.pictures import DOTS_PER_INCH, GRID, INK, QUIET, SERIES, VERMILION, WIDTH, png
from mechanisms.accounting.composition import Conversion, compose_concentrated, compose_pure
from mechanisms.accounting.losses import ApproximateLoss, ConcentratedLoss, InfiniteLoss, Loss, PureLoss, format_loss
from resources.ledger import remaining

_EARLIER = "////"
"""The hatching of the bars of earlier charges."""
_ORDER = (PureLoss, ConcentratedLoss, ApproximateLoss)
_SMALL, _HEAD = 8.5, 10.5
_LINE = 0.155
"""The height of a line of labels, in inches. It is the unit of the vertical axes, too."""
_LABEL, _HEADING, _BELOW = 28, 58, 74
"""How many letters a line of a label, of a panel's title, and of the remark below a panel has."""
_BEYOND = 1.04
"""The ratio of the axis to the longest bar or the cap."""


@dataclass(frozen=True)
class _Bar:
    """A row of a panel: the contribution of one release to a total.

    Attributes:
        shares: the shares of the release's charges with one kind of loss, all of which count.
        joint: whether they are converted together with other releases and have no separate contribution.
    """

    shares: tuple[Share, ...]
    joint: bool

    @property
    def release(self) -> str:
        return self.shares[-1].charge.release

    @property
    def losses(self) -> list[Loss]:
        return [share.loss for share in self.shares if share.loss is not None]

    @property
    def total(self) -> PureLoss | ConcentratedLoss:
        if any(isinstance(loss, ConcentratedLoss) for loss in self.losses):
            return compose_concentrated(self.losses)
        return compose_pure(loss.epsilon if isinstance(loss, ApproximateLoss) else loss for loss in self.losses)

    @property
    def label(self) -> str:
        specification = self.shares[-1].charge.specification
        times = f", charged {len(self.shares)} times" if len(self.shares) > 1 else ""
        # A long name is broken after an underscore.
        name = fill(self.release.replace("_", "_ "), _LABEL).replace("_ ", "_")
        return f"{name}\n" + fill(
            f"{format_loss(specification.loss)}, one {specification.flavor.unit}{times}", _LABEL + 4
        )


@dataclass(frozen=True)
class _Panel:
    """A total to draw.

    Attributes:
        title: the unit and the output premetric of the total, in words.
        cap: a cap to draw as a line, in the total's output premetric; or None.
    """

    title: str
    shares: tuple[Share, ...]
    total: Loss
    cap: Loss | None

    @cached_property
    def conversion(self) -> Conversion | None:
        return find_conversion(self.shares, self.total)

    @cached_property
    def bars(self) -> list[_Bar]:
        """One bar for each release and kind of loss that counts; those converted together come last."""
        groups: dict[tuple[str, type[Loss]], list[Share]] = {}
        for share in self.shares:
            if share.loss is not None:
                kind = type(share.charge.specification.loss)
                groups.setdefault((share.charge.release, kind), []).append(share)
        bars = [
            _Bar(
                tuple(groups[key]),
                all(share.loss is not None and takes_part(share.loss, self.conversion) for share in groups[key]),
            )
            for key in sorted(groups, key=lambda key: _ORDER.index(key[1]))
        ]
        return sorted(bars, key=lambda bar: bar.joint)

    @property
    def labels(self) -> list[str]:
        return [*(bar.label for bar in self.bars), *(["Together"] if len(self.bars) != 1 else [])]

    @property
    def lines(self) -> list[int]:
        return [label.count("\n") + 2 for label in self.labels]

    @property
    def remark(self) -> str:
        parts = []
        if self.cap:
            left = remaining(self.total, self.cap)
            parts.append(f"Dashed: the cap, {format_loss(self.cap)}. Dotted: {self.cap.symbol} = {left} is left.")
        if any(not share.charge.latest for bar in self.bars if not bar.joint for share in bar.shares):
            parts.append("Hatched: earlier charges of the same release.")
        if sum(bar.joint for bar in self.bars) > 1:
            parts.append("The converted ε is divided among its bars in proportion to their ρ.")
        return "\n".join(fill(part, _BELOW) for part in parts)


def draw_comparison(budget: Budget, title: str) -> bytes:
    """Draw the contribution of each release to every total.

    The cap is a line in the panel whose total equals the sum that counts against the cap. If no total does, that sum
    has a panel of its own. Infinite losses have no bar; they are named below the panels.

    Returns:
        PNG bytes, 1080 pixels wide.

    Raises:
        ValueError: if nothing was charged.
    """
    if not budget.charges:
        raise ValueError("there is no charge to draw")
    names = list(dict.fromkeys(charge.release for charge in budget.charges))
    colors = {name: SERIES[number % len(SERIES)] for number, name in enumerate(names)}
    panels = _panels(budget)
    title = fill(title, _HEADING)
    infinite = list(dict.fromkeys(charge.release for charge in budget.comparison.infinite))
    footer = fill(f"ε = ∞: without a finite loss, and without a bar: {join_names(infinite)}.", 90) if infinite else ""
    heights = [_LINE * sum(panel.lines) for panel in panels]
    words = sum(1.2 + 0.18 * (panel.title.count("\n") + panel.remark.count("\n")) for panel in panels)
    height = 0.35 + 0.2 * (title.count("\n") + footer.count("\n") + bool(footer)) + sum(heights) + 0.72 * words
    figure = Figure(figsize=(WIDTH, height), dpi=DOTS_PER_INCH, facecolor="white")
    figure.set_layout_engine("constrained", w_pad=0.08, h_pad=0.07, hspace=0)
    FigureCanvasAgg(figure)
    # Titles of datasets are not formulas, even if they contain dollar signs.
    figure.suptitle(title, x=0.02, ha="left", fontsize=13, fontweight="bold", color=INK, parse_math=False)
    if footer:
        figure.supxlabel(footer, x=0.02, ha="left", fontsize=_SMALL, color=VERMILION, parse_math=False)
    axes = figure.subplots(len(panels), height_ratios=heights, squeeze=False)
    for panel, (place,) in zip(panels, axes, strict=True):
        _draw(place, panel, colors)
    return png(figure)


def _panels(budget: Budget) -> list[_Panel]:
    comparison, cap, counted = budget.comparison, budget.cap, budget.total
    panels: list[_Panel] = []
    for total in comparison.totals:
        if isinstance(total.loss, InfiniteLoss):
            continue
        capped = total.loss == counted and not any(panel.cap for panel in panels)
        title = f"One {total.unit}, {_in_words(total.loss)}"
        panels.append(_Panel(title, comparison.shares(total), total.loss, cap if capped else None))
    if cap and counted and not any(panel.cap for panel in panels):
        title = f"Against the cap, whatever the unit, {_in_words(cap)}"
        panels.append(_Panel(title, comparison.shares_of_cap(cap), counted, cap))
    return sorted(panels, key=lambda panel: panel.cap is None)


def _in_words(loss: Loss) -> str:
    at_delta = format_loss(loss).partition(" at ")[2]
    return f"{loss.symbol}{f' at {at_delta}' if at_delta else ''}: {loss.output_premetric}"


def _draw(axes: Axes, panel: _Panel, colors: dict[str, str]) -> None:
    """Draw the bars in the order of the rows, each starting where the previous one ends.

    What releases contribute to an ε together is divided among their bars in proportion to their ρ.
    """
    middles = [end - lines / 2 for end, lines in zip(accumulate(panel.lines), panel.lines, strict=True)]
    axes.set_title(fill(panel.title, _HEADING), loc="left", fontsize=_HEAD, fontweight="bold", color=INK)
    axes.set_xlim(0, _BEYOND * (max(float(panel.total), float(panel.cap) if panel.cap else 0.0) or 1.0))
    axes.set_ylim(sum(panel.lines), 0)
    axes.set_yticks(middles, panel.labels, parse_math=False)

    def draw_bar(row: int, start: float, length: float, color: str, *, earlier: bool = False) -> float:
        look: dict[str, Any] = {"facecolor": "white", "hatch": _EARLIER} if earlier else {"facecolor": color}
        axes.barh(
            middles[row], length, 0.62 * panel.lines[row], left=start, edgecolor=color, linewidth=0.6, zorder=2, **look
        )
        return start + length

    def write(middle: float, words: str, **look: Any) -> None:
        axes.text(1.02, middle, words, transform=axes.get_yaxis_transform(), fontsize=_SMALL, va="center", **look)

    total, start = f"{panel.total.symbol} = {panel.total.round_up()}", 0.0
    single = len(panel.bars) == 1
    joint = [row for row, bar in enumerate(panel.bars) if bar.joint]
    for row, bar in enumerate(panel.bars):
        color = colors[bar.release]
        if bar.joint and panel.conversion:
            whole = float(panel.conversion.loss)
            share = float(compose_concentrated(bar.losses)) / whole if whole else 0.0
            start = draw_bar(row, start, float(panel.conversion.epsilon) * share, color)
            continue
        for one in bar.shares:
            if one.loss is not None:
                start = draw_bar(row, start, float(one.loss), color, earlier=not one.charge.latest)
        write(middles[row], total if single else f"+ {bar.total.round_up()}", weight="bold" if single else "normal")
    if joint and panel.conversion:
        added = total if single else f"+ {panel.conversion.epsilon.round_up()}"
        together = " together" if len(joint) > 1 else ""
        words = f"{added}\nfor {format_loss(panel.conversion.loss)}{together}"
        write((middles[joint[0]] + middles[joint[-1]]) / 2, words)
    if not single:
        draw_bar(-1, 0.0, float(panel.total), INK)
        write(middles[-1], total, weight="bold")
        axes.get_yticklabels()[-1].set_fontweight("bold")
    if panel.cap:
        axes.hlines(middles[-1], float(panel.total), float(panel.cap), VERMILION, "dotted", linewidth=1.8)
        axes.axvline(float(panel.cap), color=VERMILION, linestyle=(0, (4, 3)), linewidth=1.4, zorder=4)
    axes.set_xlabel(panel.remark, fontsize=_SMALL, color=VERMILION if panel.cap else QUIET, parse_math=False)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(QUIET)
    axes.tick_params(labelsize=_SMALL, colors=QUIET, length=3)
    axes.tick_params(axis="y", labelcolor=INK, length=0)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=6))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.grid(axis="x", color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
