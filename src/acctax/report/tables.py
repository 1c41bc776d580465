"""The tables of a sweep, as text in cells: the terminal, Markdown and tests show the same ones."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from acctax.analyze.rows import Row
from acctax.analyze.sweep import BestK, Scheme, Sweep
from acctax.analyze.verdicts import LOSSES, Name

NONE = "—"


@dataclass(frozen=True)
class Table:
    title: str
    header: tuple[str, ...]  # units included
    groups: tuple[tuple[tuple[str, ...], ...], ...]  # one group of rows per scheme
    note: str = ""

    @property
    def rows(self) -> Iterator[tuple[str, ...]]:
        return (row for group in self.groups for row in group)


Cells = Callable[[Row], Sequence[str]]


def every(sweep: Sweep) -> list[Table]:
    """In reading order, without those that have nothing to say."""
    tables = (wins(sweep), waterfall(sweep), timing(sweep), best_K(sweep), rejected(sweep))
    return [table for table in tables if table]


def _per_cell(sweep: Sweep, title: str, header: Sequence[str], cells: Cells, note: str = "") -> Table:
    groups = (
        tuple((name(sweep, scheme, row), *cells(row)) for row in scheme.rows) for scheme in sweep.schemes
    )
    return Table(title, ("cell", *header), tuple(groups), note)


def name(sweep: Sweep, scheme: Scheme, row: Row) -> str:
    """What tells a cell from the others of its sweep."""
    several_K = len({row.K for row in sweep.rows}) > 1
    parts = [scheme.label] if len(sweep.schemes) > 1 or not several_K else []
    return " ".join(parts + [f"K={row.K}"] * several_K)


def wins(sweep: Sweep) -> Table:
    return _per_cell(
        sweep, "Wins and tax, candidate over reference",
        ("W_bytes", "W_AR", "W_spec", "tax, counted", "tax, clocked", "verdict"),
        lambda row: (
            number(row["bytes/W"], 3),
            f"{row.estimate('speed/W_AR'):.3f}",
            f"{row.estimate('speed/W_spec'):.3f}",
            tax(row, "tax/counted"),
            tax(row, "tax/clocked"),
            "reference" if row.verdict == Name.REFERENCE else row.verdict,
        ),
        note="W_bytes: what the ledger promises, W_AR: a plain pass, W_spec: speculative tok/s. "
             "tax: the share of the win per cycle that lost acceptance took, counted in bytes (decides) and "
             "by the clock; — where there is no win even at equal acceptance.",
    )  # fmt: skip


def waterfall(sweep: Sweep) -> Table:
    def cells(row: Row) -> Sequence[str]:
        losses = [-row[name] for name in LOSSES.values()]
        return [signed(100 * x) for x in (np.log(row["bytes/W"]), *losses, np.log(row["speed/W_spec"]))]

    return _per_cell(
        sweep, "Where the byte win went, log-%",
        ("bytes promise", *LOSSES, "= realized"), cells,
        note="100·ln of each ratio, so that a row adds up; −10 is a loss of 9.5 %.",
    )  # fmt: skip


def timing(sweep: Sweep) -> Table:
    def pair(row: Row, figure: str, digits: int) -> str:
        return f"{number(row[f'{figure}_ref'], digits)} → {number(row[figure], digits)}"

    return _per_cell(
        sweep, "Acceptance and time, reference → candidate",
        ("τ tok/cycle", "α_geo", "c", "T(1) ms", "T(K+1) ms", "plain tok/s", "speculative tok/s"),
        lambda row: (
            pair(row, "accept/tau", 2),
            pair(row, "accept/alpha_geo", 2),
            pair(row, "time/c", 2),
            pair(row, "time/T1_ms", 1),
            pair(row, "time/T_verify_ms", 1),
            pair(row, "speed/tok_s_ar", 1),
            pair(row, "speed/tok_s", 1),
        ),
        note="τ: committed tokens per cycle. α_geo: the constant acceptance that gives it. "
             "c: one draft over T(1). T(M): a target pass over M rows.",
    )  # fmt: skip


def best_K(sweep: Sweep) -> Table | None:
    """K* of both sides, for the schemes that were measured at several K."""
    swept = [scheme for scheme in sweep.schemes if len(scheme.valid) > 1 and scheme.best_K()]
    if not swept:
        return None

    def cells(scheme: Scheme) -> tuple[str, ...]:
        r, c = scheme.best_K("_ref"), scheme.best_K()
        same, own = scheme.at(r.K), scheme.tax_at_own_K()
        return (
            scheme.label,
            _best(r),
            _best(c),
            f"{r.speedup:.2f}× → {c.speedup:.2f}×",
            share(same["tax/counted"]) if same else NONE,
            *((share(own.counted), share(own.clocked), number(own.R, 3)) if own else (NONE,) * 3),
        )

    return Table(
        "The best K of both sides",
        ("scheme", "K* reference", "K* candidate", "speed-up", "tax at K* ref.", "at own K*", "by the clock",
         "W_spec there"),
        tuple((cells(scheme),) for scheme in swept),
        note="K* (every K that may be the best): argmax of tok/s over plain decoding in the same job. "
             "speed-up: over plain decoding, at either side's K*. What the tax at own K* is less than the "
             "tax at the reference's is what tuning K again gives back.",
    )  # fmt: skip


def rejected(sweep: Sweep) -> Table | None:
    rows = sweep.having(Name.REJECT)
    if not rows:
        return None
    hardware = {row.environment.get("hardware", "") for row in rows}
    groups = tuple(
        tuple(
            (
                name(sweep, scheme, row),
                row.component,
                signed(-100 * row[LOSSES[row.component]]),
                number(row["bytes/W_cycle"], 3),
                tax(row, "tax/counted"),
                f"{row.estimate('speed/W_spec'):.3f}",
                row.environment.get("hardware", ""),
            )
            for row in scheme.rows
            if row.verdict == Name.REJECT
        )
        for scheme in sweep.schemes
    )
    header = ("cell", "eaten by", "loss, log-%", "W_cycle", "tax, counted", "W_spec", "hardware")
    if len(hardware) == 1:
        header, groups = header[:-1], tuple(tuple(row[:-1] for row in group) for group in groups)
    return Table("Rejected candidates", header, tuple(filter(None, groups)),
                 note="W_cycle: bytes of a cycle, reference over candidate, its K drafter passes included: "
                      "the win that the counted tax is a share of.")  # fmt: skip


def _best(best: BestK) -> str:
    first, last = best.ties[0], best.ties[-1]
    if first == last:
        return str(best.K)
    unbroken = last - first < len(best.ties)
    return f"{best.K} ({f'{first}–{last}' if unbroken else ', '.join(map(str, best.ties))})"


def tax(row: Row, figure: str) -> str:
    """Its share of the win with its interval; one that is negative is a bonus."""
    e = row.estimate(figure)
    return f"bonus {-e:.0%}" if e.value < 0 else f"{e:.0%}"


def share(value: float) -> str:
    """The same without an interval."""
    return NONE if np.isnan(value) else f"{'bonus ' * (value < 0)}{100 * abs(value):.0f} %"


def number(value: float, digits: int) -> str:
    return NONE if np.isnan(value) else f"{value:.{digits}f}"


def signed(value: float) -> str:
    """With a true minus sign, and no sign on what rounds to zero."""
    if np.isnan(value):
        return NONE
    return "0.0" if abs(value) < 0.05 else f"{value:+.1f}".replace("-", "−")
