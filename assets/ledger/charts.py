"""A picture of a dataset's releases side by side, as PNG bytes.

`comparison` computes what is drawn here. Each total has a panel with a bar for each release that it counts, one after
the other up to the sum, and below them the releases that it does not count, with the reason. After the panels follow
all invariants with the releases that hold them, because a total holds only for data sets that agree on its invariants.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from assets.ledger.comparison import Comparison, Share, converted, takes_part
from assets.ledger.sheet import LINE, MARGIN, TEXT, Sheet
from assets.ledger.words import listed, on_moves, reasons
from assets.pictures import GRID, INK, QUIET, SERIES, VERMILION, WIDTH, png
from mechanisms.accounting.approximate import ApproximateLoss
from mechanisms.accounting.composition import (
    Conversion,
    DoesNotCompose,
    Loss,
    concentrated_total,
    pure_total,
    stated,
    symbol,
)
from mechanisms.accounting.infinite import InfiniteLoss
from mechanisms.accounting.loss import PureLoss
from mechanisms.accounting.zcdp import ConcentratedLoss
from resources.ledger import remaining

_EARLIER = "////"
"""The hatching of the bars of earlier charges."""
_ORDER = (PureLoss, ConcentratedLoss, ApproximateLoss)
_ADDS = {
    PureLoss: "ε adds up.",
    ConcentratedLoss: "ρ adds up; a pure ε counts as ε²/2.",
    ApproximateLoss: "All ρ are added first, and their sum is converted to ε; each pure ε is added to the result.",
}
_ALL_CONVERTED = (
    "All ρ are added first, with each pure ε as ε²/2, and their sum is converted to ε; here this gives less."
)

_LABELS = 1.75
_GAP = 0.12
_ROW = 0.13
_AXIS = 0.34
_SMALL, _HEAD, _TITLE = 8.5, 10.5, 13.0
_SMALL_LINE = LINE * _SMALL / TEXT
_COLUMN, _COLUMNS, _HEADER = 0.42, 3.4, 2.4
"""In the part with the invariants: the maximal widths of a column and of all columns, and of a header's text."""
_FIGURES = 1.45
"""The width of the column of figures, which is next to the bars so that no bar or line crosses the figures."""
_BEYOND = 1.04
"""The ratio of the axis to the longest bar or the cap."""


@dataclass(frozen=True)
class _Bar:
    """A row of a panel: the contribution of one release to a total.

    Attributes:
        release: the name of the release.
        own: a description of its losses in its own output premetric.
        earlier: the contributions of its superseded charges.
        latest: the contribution of its latest charge.
        joint: whether it is converted together with other releases and has no separate contribution.
    """

    release: str
    own: str
    earlier: tuple[Loss, ...]
    latest: tuple[Loss, ...]
    joint: bool


@dataclass(frozen=True)
class _Row:
    """The position of a bar in its panel.

    Attributes:
        bar: the bar; None for the row of the sum, which there is if several releases count.
        name: the lines of its label.
        own: the lines that describe its losses.
        down: the distance of its upper edge from the panel's upper edge, in inches.
    """

    bar: _Bar | None
    name: tuple[str, ...]
    own: tuple[str, ...]
    down: float

    @property
    def height(self) -> float:
        return _ROW + LINE * len(self.name) + _SMALL_LINE * len(self.own)

    @property
    def middle(self) -> float:
        return self.down + self.height / 2


@dataclass(frozen=True)
class _Panel:
    """A total to draw.

    Attributes:
        title: the unit and the output premetric of the total, in words.
        unit: the unit whose change it measures; "" if charges count whatever their unit.
        shares: the shares of all charges.
        total: the total loss.
        cap: a cap to draw as a line, in the total's output premetric; or None.
    """

    title: str
    unit: str
    shares: tuple[Share, ...]
    total: Loss
    cap: Loss | None

    @cached_property
    def conversion(self) -> Conversion | None:
        return converted(self.shares, self.total)

    @cached_property
    def bars(self) -> tuple[_Bar, ...]:
        """One bar for each release and kind of loss that counts; those converted together come last."""
        counted = [share for share in self.shares if share.loss is not None]
        kinds = dict.fromkeys((share.charge.release, type(share.charge.specification.loss)) for share in counted)
        bars = [
            self._bar([each for each in counted if (each.charge.release, type(each.charge.specification.loss)) == kind])
            for kind in sorted(kinds, key=lambda kind: _ORDER.index(kind[1]))
        ]
        return tuple(sorted(bars, key=lambda bar: bar.joint))

    def _bar(self, shares: Sequence[Share]) -> _Bar:
        charge = shares[-1].charge
        more = f", charged {len(shares)} times" if len(shares) > 1 else ""
        losses = [(share.charge.latest, share.loss) for share in shares if share.loss is not None]
        return _Bar(
            charge.release,
            f"{stated(charge.specification.loss)}, one {charge.specification.flavor.unit}{more}",
            tuple(loss for latest, loss in losses if not latest),
            tuple(loss for latest, loss in losses if latest),
            all(takes_part(loss, self.conversion) for _, loss in losses),
        )

    @property
    def single(self) -> bool:
        """Whether one bar is the total, so that a row for the sum would only repeat it."""
        return len(self.bars) == 1

    @property
    def remark(self) -> str:
        whole = self.conversion is not None and self.conversion.takes_pure
        return " ".join([_ALL_CONVERTED if whole else _ADDS[type(self.total)], *on_moves(self.shares, self.unit)])


def side_by_side(comparison: Comparison, title: str, cap: Loss) -> bytes:
    """Draw the contribution of each release to every total, what cannot be added and why, and the invariants.

    The cap is a line in the panel whose total equals the sum that counts against the cap. If no total does, that sum
    has a panel of its own. Infinite losses have no bar; they are named below the panels.

    Args:
        comparison: a comparison with at least one charge.
        title: the title of the dataset.
        cap: the cap of the dataset.

    Returns:
        PNG bytes, 1080 pixels wide.

    Raises:
        ValueError: if nothing was charged.
    """
    if not comparison.charges:
        raise ValueError("there is no charge to draw")
    sheet = Sheet()
    names = list(dict.fromkeys(charge.release for charge in comparison.charges))
    colors = {name: SERIES[number % len(SERIES)] for number, name in enumerate(names)}
    sheet.say(title, _TITLE, weight="bold")
    sheet.say(
        "The privacy losses of its releases, each alone and in total. A total adds only losses that compose, and "
        "compares only data sets that agree on every invariant of all the releases it counts.",
        TEXT,
        color=QUIET,
    )
    for panel in _panels(comparison, cap):
        _draw(sheet, panel, colors)
    _draw_infinite(sheet, comparison, names)
    if comparison.invariants:
        _draw_invariants(sheet, comparison, names, colors)
    return png(sheet.finished())


def _panels(comparison: Comparison, cap: Loss) -> list[_Panel]:
    try:
        counted = comparison.counted(cap)
    except DoesNotCompose:
        counted = None
    panels: list[_Panel] = []
    for total in comparison.totals:
        if isinstance(total.loss, InfiniteLoss):
            continue
        capped = total.loss == counted and not any(panel.cap for panel in panels)
        title = f"One {total.unit}, {_in_words(total.loss)}"
        panels.append(_Panel(title, total.unit, comparison.shares(total), total.loss, cap if capped else None))
    if counted is not None and not any(panel.cap for panel in panels):
        title = f"Against the cap, whatever the unit, {_in_words(cap)}"
        panels.append(_Panel(title, "", comparison.shares_of_cap(cap), counted, cap))
    return sorted(panels, key=lambda panel: panel.cap is None)


def _in_words(loss: Loss) -> str:
    at_delta = stated(loss).partition(" at ")[2]
    return f"{symbol(loss)}{f' at {at_delta}' if at_delta else ''}: {loss.output_premetric}"


def _draw(sheet: Sheet, panel: _Panel, colors: dict[str, str]) -> None:
    sheet.down += _GAP
    sheet.say(panel.title, _HEAD, weight="bold")
    sheet.say(panel.remark, _SMALL, color=QUIET)
    if sum(bar.joint for bar in panel.bars) > 1:
        sheet.say("The converted ε is divided among its bars in proportion to their ρ.", _SMALL, color=QUIET)
    if any(bar.earlier and not bar.joint for bar in panel.bars):
        sheet.say("Hatched: earlier charges of the same release, which also count.", _SMALL, color=QUIET)
    if panel.cap:
        sheet.say(f"Dashed: the cap, {stated(panel.cap)}. Dotted: what is left of it.", _SMALL, color=VERMILION)
    _draw_bars(sheet, panel, colors)
    apart = reasons(panel.shares)
    if apart:
        sheet.say("Not added:", _SMALL, weight="bold", color=QUIET)
        for reason, releases in apart.items():
            sheet.say(f"{listed(releases)}: {reason}.", _SMALL, color=QUIET)


def _draw_infinite(sheet: Sheet, comparison: Comparison, names: Sequence[str]) -> None:
    """Name the releases with an infinite loss, and say that no bar shows it."""
    infinite = {charge.release for charge in comparison.infinite}
    if infinite:
        sheet.down += _GAP
        sheet.say("ε = ∞: without a finite loss", _HEAD, weight="bold", color=VERMILION)
        sheet.say(
            f"{listed([name for name in names if name in infinite])}. No bar shows this loss, no cap bounds it, and no "
            "finite total bounds what all releases together disclose.",
            _SMALL,
            color=QUIET,
        )


def _draw_bars(sheet: Sheet, panel: _Panel, colors: dict[str, str]) -> None:
    """Draw the bars in the order of the rows, each starting where the previous one ends.

    What releases contribute to an ε together is divided among their bars in proportion to their ρ.
    """
    rows = _rows(sheet, panel)
    left, width = MARGIN + _LABELS, WIDTH - 2 * MARGIN - _LABELS - _FIGURES
    tall = rows[-1].down + rows[-1].height
    axes = sheet.plot(left, width, tall)
    axes.set_xlim(0, _BEYOND * (max(float(panel.total), float(panel.cap) if panel.cap else 0.0) or 1.0))
    axes.set_ylim(tall, 0)

    def beside(middle: float, words: str, **look: object) -> None:
        sheet.write(left + width + 0.08, sheet.down + middle, words, _SMALL, va="center", **look)

    start = 0.0
    whole_total = f"{symbol(panel.total)} = {panel.total.rounded_up()}"
    if panel.cap:
        last = rows[-1].middle
        axes.hlines(last, float(panel.total), float(panel.cap), VERMILION, "dotted", linewidth=1.8)
    for row in rows:
        _write_label(sheet, row, left - 0.08)
        if row.bar is None:
            _bar(axes, row, 0.0, float(panel.total), INK)
            beside(row.middle, whole_total, weight="bold")
        elif not row.bar.joint:
            for losses, earlier in ((row.bar.earlier, True), (row.bar.latest, False)):
                for loss in losses:
                    _bar(axes, row, start, float(loss), colors[row.bar.release], earlier)
                    start += float(loss)
            if panel.single:
                beside(row.middle, whole_total, weight="bold")
            else:
                beside(row.middle, f"+ {_sum((*row.bar.earlier, *row.bar.latest)).rounded_up()}")
    block = [row for row in rows if row.bar is not None and row.bar.joint]
    if block and panel.conversion:
        epsilon, whole = float(panel.conversion.epsilon), float(panel.conversion.loss)
        for row in block:
            assert row.bar is not None
            part = epsilon * _share_of_rho(row.bar) / whole if whole else 0.0
            _bar(axes, row, start, part, colors[row.bar.release])
            start += part
        together = " together" if len(block) > 1 else ""
        added = whole_total if panel.single else f"+ {panel.conversion.epsilon.rounded_up()}"
        words = f"{added}\nfor {stated(panel.conversion.loss)}{together}"
        beside((block[0].down + block[-1].down + block[-1].height) / 2, words)
    if panel.cap:
        axes.axvline(float(panel.cap), color=VERMILION, linestyle=(0, (4, 3)), linewidth=1.4, zorder=4)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(QUIET)
    axes.tick_params(labelsize=_SMALL, colors=QUIET, length=3)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=6))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_yticks([])
    axes.grid(axis="x", color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    sheet.down += tall + _AXIS


def _rows(sheet: Sheet, panel: _Panel) -> list[_Row]:
    rows: list[_Row] = []
    down = 0.0
    left = (f"{remaining(panel.total, panel.cap)} is left",) if panel.cap else ()
    for bar in panel.bars:
        name, own = (
            sheet.wrapped(text, size, _LABELS - _GAP) for text, size in ((bar.release, TEXT), (bar.own, _SMALL))
        )
        rows.append(_Row(bar, tuple(name), (*own, *(left if panel.single else ())), down))
        down += rows[-1].height
    return rows if panel.single else [*rows, _Row(None, ("Together",), left, down)]


def _write_label(sheet: Sheet, row: _Row, right: float) -> None:
    down = sheet.down + row.down + _ROW / 2
    for line in row.name:
        sheet.write(right, down, line, TEXT, ha="right", weight="normal" if row.bar else "bold")
        down += LINE
    for line in row.own:
        sheet.write(right, down, line, _SMALL, ha="right", color=QUIET)
        down += _SMALL_LINE


def _bar(axes: Axes, row: _Row, start: float, length: float, color: str, earlier: bool = False) -> None:
    look: dict[str, Any] = {"facecolor": "white", "hatch": _EARLIER} if earlier else {"facecolor": color}
    axes.barh(row.middle, length, 0.62 * row.height, left=start, edgecolor=color, linewidth=0.6, zorder=2, **look)


def _share_of_rho(bar: _Bar) -> float:
    """What a release adds to the ρ that is converted as a whole."""
    losses = (*bar.earlier, *bar.latest)
    return sum(float(ConcentratedLoss.of_pure(loss)) if isinstance(loss, PureLoss) else float(loss) for loss in losses)


def _sum(losses: Iterable[Loss]) -> PureLoss | ConcentratedLoss:
    """The sum of one release's contributions to a total: of ρ, or else of ε."""
    every = list(losses)
    concentrated = [loss for loss in every if isinstance(loss, ConcentratedLoss)]
    if concentrated:
        return concentrated_total(concentrated)
    return pure_total(loss.epsilon if isinstance(loss, ApproximateLoss) else loss for loss in every)


def _draw_invariants(sheet: Sheet, comparison: Comparison, names: Sequence[str], colors: dict[str, str]) -> None:
    """Draw a row for each invariant and a column for each release.

    A dot marks an invariant that the release holds; a ring marks one that only an earlier charge of the release held.
    """
    sheet.down += _GAP
    sheet.say("Invariants: no loss covers data sets that differ in one of them", _HEAD, weight="bold")
    column = min(_COLUMN, _COLUMNS / len(names))
    left = WIDTH - MARGIN - column * len(names)
    headers = {name: sheet.wrapped(name, _SMALL, _HEADER) for name in names}
    high = max(sheet.width(line, _SMALL) for lines in headers.values() for line in lines) + 0.05
    for number, name in enumerate(names):
        sheet.write(
            left + column * (number + 0.5),
            sheet.down + high,
            "\n".join(headers[name]),
            _SMALL,
            rotation=90,
            ha="center",
            va="bottom",
        )
    sheet.down += high + 0.06
    rows = {
        words: (sheet.wrapped(words, _SMALL, left - MARGIN - _GAP), holders)
        for words, holders in comparison.invariants.items()
    }
    heights = [0.09 + _SMALL_LINE * len(lines) for lines, _ in rows.values()]
    axes = sheet.plot(MARGIN, WIDTH - 2 * MARGIN, sum(heights))
    axes.set_xlim(MARGIN, WIDTH - MARGIN)
    axes.set_ylim(sum(heights), 0)
    axes.axis("off")
    held = {charge.release: charge.specification.flavor.multiverse for charge in comparison.latest}
    down = 0.0
    for (words, (lines, holders)), height in zip(rows.items(), heights, strict=True):
        for number, line in enumerate(lines):
            sheet.write(MARGIN, sheet.down + down + 0.045 + number * _SMALL_LINE, line, _SMALL)
        axes.axhline(down, color=GRID, linewidth=0.8, zorder=1)
        for name in holders:
            axes.plot(
                left + column * (names.index(name) + 0.5),
                down + height / 2,
                marker="o",
                markersize=8,
                color=colors[name] if words in held[name] else "white",
                markeredgecolor=colors[name],
                zorder=3,
            )
        down += height
    sheet.down += sum(heights)
