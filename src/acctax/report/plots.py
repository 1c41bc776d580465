"""One picture of a sweep: τ, tok/s and tax over K, or over the schemes where one K was measured."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from acctax.analyze.rows import Row
from acctax.analyze.sweep import Scheme, Sweep

# Okabe and Ito's colours, told apart by every kind of eye; markers tell them apart in grey print.
REFERENCE = "#000000"
CANDIDATES = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
MARKERS = "osD^vP"
TAX_TICKS = (-1000, -300, -100, -50, 0, 50, 100, 200, 500, 1000, 3000, 10000)  # %: linear within ±100


def draw(sweep: Sweep, path: Path, tax_threshold: float) -> None:
    """A PNG of three panels, empty where no cell is valid; bars are 95 % intervals."""
    schemes = [scheme for scheme in sweep.schemes if scheme.valid]
    candidates = [scheme for scheme in schemes if not scheme.is_reference] or schemes
    K = sorted({row.K for scheme in candidates for row in scheme.valid})
    figure = Figure(figsize=(13, 4.2), dpi=150, layout="constrained")
    panels = figure.subplots(1, 3)
    for line in _over_K(candidates) if len(K) > 1 else _over_schemes(candidates):
        _curve(panels[0], line, *line.ends(f"accept/tau{line.suffix}"), f"{line.label}, speculative")
        _curve(panels[1], line, *line.speed(), f"{line.label}, speculative")
        _plain(panels[1], line)
        _tax(panels[2], line)
    _dress(panels, tax_threshold)
    for panel in panels:
        panel.set_xticks(K, labels=map(str, K)) if len(K) > 1 else _name_ticks(panel, candidates)
        panel.set_xlabel("drafted tokens K" if len(K) > 1 else "".join(f"scheme, K={k}" for k in K))
    handles, labels = panels[1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=5, frameon=False)
    figure.savefig(path)


class _Line:
    """Rows in drawing order, where each stands, and how its arm is drawn."""

    def __init__(
        self, label: str, rows: Sequence[Row], x: Sequence[float], suffix: str, colour: str, marker: str
    ):
        self.label, self.rows, self.suffix, self.colour, self.marker = label, rows, suffix, colour, marker
        self.x = np.asarray(x, float)
        self.joined = len({row.K for row in rows}) > 1

    def ends(self, figure: str, scale: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
        """values [n], distances to the interval's ends [2, n], an unknown end at the value itself."""
        estimates = scale * np.array([row.estimate(figure) for row in self.rows]).T
        value = estimates[0]
        low, high = np.where(np.isnan(estimates[1:]), value, estimates[1:])
        return value, np.clip([value - low, high - value], 0, None)

    def speed(self) -> tuple[np.ndarray, np.ndarray]:
        """tok/s; the candidate's with the interval of its ratio to the reference: drift is not in it."""
        value, _ = self.ends(f"speed/tok_s{self.suffix}")
        if self.suffix:
            return value, np.zeros((2, len(value)))
        ratio, distance = self.ends("speed/W_spec")
        return value, value / ratio * distance


def _over_K(schemes: Sequence[Scheme]) -> list[_Line]:
    lines, references = [], set()
    for i, scheme in enumerate(schemes):
        x, shift = np.array([row.K for row in scheme.valid]), 0.06 * (i + 1)
        kept = tuple(choice for choice in scheme.choices.items() if not choice[0].endswith("_quant"))
        if kept not in references:  # schemes that differ in these alone measured the same reference
            references.add(kept)
            lines.append(_Line("reference", scheme.valid, x, "_ref", REFERENCE, "s"))
        style = CANDIDATES[i % len(CANDIDATES)], MARKERS[i % len(MARKERS)]
        lines.append(_Line(scheme.label, scheme.valid, x + shift, "", *style))
    return lines


def _over_schemes(schemes: Sequence[Scheme]) -> list[_Line]:
    rows = [row for scheme in schemes for row in scheme.valid]
    if not rows:
        return []
    x = np.arange(len(rows))
    return [_Line("reference", rows, x - 0.08, "_ref", REFERENCE, "s"),
            _Line("candidate", rows, x + 0.08, "", CANDIDATES[0], "o")]  # fmt: skip


def _curve(
    panel: Axes, line: _Line, value: np.ndarray, distance: np.ndarray, label: str | None = None
) -> None:
    style = f"{line.marker}{'-' * line.joined}"
    panel.errorbar(
        line.x, value, distance, fmt=style, color=line.colour, capsize=3, markersize=5, label=label
    )


def _plain(panel: Axes, line: _Line) -> None:
    value, _ = line.ends(f"speed/tok_s_ar{line.suffix}")
    panel.plot(line.x, value, f"{line.marker}{':' * line.joined}", color=line.colour, markerfacecolor="white",
               markersize=4, label=f"{line.label}, plain")  # fmt: skip


def _tax(panel: Axes, line: _Line) -> None:
    if not line.suffix:
        value, distance = line.ends("tax/counted", 100)
        _curve(panel, line, value, np.minimum(distance, TAX_TICKS[-1]))


def _dress(panels: Sequence[Axes], tax_threshold: float) -> None:
    labels = ("τ, committed tokens per cycle", "tok/s (bars: of the ratio to the reference)",
              "acceptance tax, % of the byte win")  # fmt: skip
    for panel, label in zip(panels, labels):
        panel.set_ylabel(label)
        panel.grid(axis="y", color="#DDDDDD", linewidth=0.6)
        panel.set_axisbelow(True)
        panel.spines[["top", "right"]].set_visible(False)
    panels[1].set_ylim(0, 1.05 * panels[1].get_ylim()[1])
    tax = panels[2]
    tax.set_yscale("symlog", linthresh=100)
    low, high = tax.get_ylim()
    low, high = min(low, -20), max(high, 130)
    tax.set_yticks([tick for tick in TAX_TICKS if low <= tick <= high], minor=False)
    tax.yaxis.set_major_formatter("{x:.0f}")
    tax.minorticks_off()
    tax.set_ylim(low, high)
    tax.axhline(0, color="#666666", linewidth=0.8)
    tax.axhline(100 * tax_threshold, color="#666666", linestyle="--", linewidth=1)
    tax.annotate("rejected above", (0.99, 100 * tax_threshold), (0, 3), xycoords=tax.get_yaxis_transform(),
                 textcoords="offset points", ha="right", color="#666666", fontsize=8)  # fmt: skip


def _name_ticks(panel: Axes, schemes: Sequence[Scheme]) -> None:
    labels = [scheme.label for scheme in schemes for _ in scheme.valid]
    panel.set_xticks(range(len(labels)), labels=labels, rotation=30, ha="right")
