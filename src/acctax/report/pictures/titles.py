"""Titles of panels that stand side by side: each as wide as its own panel, in as many lines as that takes."""

from collections.abc import Callable, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

LINE = 0.16  # inches


def fit(figure: Figure, panels: Sequence[Axes], titles: Sequence[str], pad: float | None = None) -> None:
    """Once all else is drawn: the panels' widths are known from then on, and the figure grows by the lines it takes.

    pad: points between a panel and its title.
    """
    figure.draw_without_rendering()
    wrapped = [_wrapped(panel, title, pad) for panel, title in zip(panels, titles)]
    lines = [1] * panels[0].get_gridspec().nrows
    for panel, text in zip(panels, wrapped):
        row = panel.get_subplotspec().rowspan.start
        lines[row] = max(lines[row], text.count("\n") + 1)
    figure.set_figheight(figure.get_figheight() + LINE * (sum(lines) - len(lines)))


def _wrapped(panel: Axes, title: str, pad: float | None) -> str:
    """Sets the title, and returns it as it stands."""
    drawn = panel.set_title(title, pad=pad)

    def fits(line: str) -> bool:
        drawn.set_text(line)
        return drawn.get_window_extent().width <= panel.bbox.width

    text = "\n".join(wrap(title, fits))
    drawn.set_text(text)
    return text


def wrap(text: str, fits: Callable[[str], bool]) -> list[str]:
    """In lines that fit, broken at spaces, and within a word where that alone is too long."""
    lines = [""]
    for word in text.split():
        if lines[-1] and fits(f"{lines[-1]} {word}"):
            lines[-1] += f" {word}"
            continue
        lines.append("")
        for letter in word:
            if lines[-1] and not fits(lines[-1] + letter):
                lines.append("")
            lines[-1] += letter
    return lines[1:]
