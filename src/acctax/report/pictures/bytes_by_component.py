"""Where the bytes are: what a plain step and a cycle must read, by component."""

from collections.abc import Iterator
from textwrap import fill

import numpy as np
from matplotlib.figure import Figure

from acctax.analyze.rows import Row
from acctax.analyze.sweep import Sweep
from acctax.report.pictures import style

CAPTION = "Bytes that must be read, by component: for a plain step, and for a cycle with its K drafter passes."
GROUPS = {
    "q, k, v": ("q", "k", "v"), "o": ("o",), "mlp": ("mlp", "gate", "up", "down"), "lm_head": ("lm_head",),
    "KV cache": ("kv",), "norms, embedding": ("norms", "embedding"), "drafter": ("drafter",),
}  # fmt: skip
LOOKS = (
    (style.BLUE, ""), (style.SKY, "////"), (style.GREEN, ""), (style.ORANGE, "||||"), (style.PURPLE, ""),
    (style.FAINT, ""), (style.VERMILION, "\\\\\\\\"),
)  # fmt: skip
LABEL = 40  # letters of a line
PANELS = (("bytes/", "a plain step"), ("bytes/cycle_", "a cycle"))


def draw(sweep: Sweep) -> Figure | None:
    """A bar per scheme at its best K, and one per reference that differs."""
    bars = list(_bars(sweep))
    if not bars:
        return None
    labels = [fill(label, LABEL) for label, _, _ in bars]
    lines = max(label.count("\n") + 1 for label in labels)
    figure, panels = style.facets(2, 2, 4.8, 0.5 + (0.15 + 0.15 * lines) * len(bars), sharey=True)
    for panel, (prefix, title) in zip(panels, PANELS):
        left = np.zeros(len(bars))
        for (group, members), (colour, hatch) in zip(GROUPS.items(), LOOKS):
            size = np.array([_megabytes(row, prefix, members, suffix) for _, row, suffix in bars])
            if size.any():
                panel.barh(range(len(bars)), size, left=left, color=colour, hatch=hatch, height=0.7, label=group)
            left += size
        panel.set_title(title)
        panel.set_xlabel("MB")
        panel.grid(axis="x")
    panels[0].set_yticks(range(len(bars)), labels=labels)
    panels[0].set_ylim(len(bars) - 0.5, -0.5)
    style.legend(figure, panels, columns=len(GROUPS))
    return figure


def _bars(sweep: Sweep) -> Iterator[tuple[str, Row, str]]:
    """Label, row, suffix of the arm."""
    drawn = set()
    for scheme in sweep.schemes:
        row = scheme.headline
        reference = f"reference, K={row.K}", row["bytes/cycle_MB_ref"]
        if np.isfinite(row["bytes/token_MB"]):
            if reference not in drawn:
                drawn.add(reference)
                yield reference[0], row, "_ref"
            if not scheme.is_reference:
                yield f"{scheme.label}, K={row.K}", row, ""


def _megabytes(row: Row, prefix: str, components: tuple[str, ...], suffix: str) -> float:
    return float(np.nansum([row[f"{prefix}{component}_MB{suffix}"] for component in components]))
