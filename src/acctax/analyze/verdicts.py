"""From intervals to a decision. Acceptance is judged by the counted tax, the win by the clocked W_spec."""

import math
from dataclasses import dataclass
from enum import StrEnum

from acctax.analyze.figures import Figures
from acctax.analyze.intervals import Estimate

LOSSES = {
    "kernels": "tax/ln_kernels",
    "verify width": "tax/ln_verify_width",
    "draft and overhead": "tax/ln_draft_and_overhead",
    "acceptance": "tax/ln_acceptance",
}
HOPELESS = 100  # times the data: closer to a threshold than this is not worth measuring


@dataclass(frozen=True)
class Rules:
    """What a verdict asks for; the verdict group of conf/ has the same fields."""

    tax_threshold: float = 0.5  # a share of the byte win
    margin: float = 0.0  # a win is W_spec above 1 + margin
    resamples: int = 2000  # of the bootstrap


class Name(StrEnum):
    ACCEPT = "ACCEPT"
    REJECT = "REJECT"
    UNDECIDED = "UNDECIDED"
    INVALID = "INVALID"
    REFERENCE = "REFERENCE"


@dataclass(frozen=True)
class Verdict:
    name: Name
    reason: str
    component: str | None = None  # of a REJECT: what ate the win
    remedy: str | None = None  # of an UNDECIDED: what would decide it
    wanted: frozenset[str] = frozenset()  # of an UNDECIDED: the units it is short of, "prompts" and "rounds"


def decide(figures: Figures, rules: Rules, prompts: int, rounds: int, group: str = "measure") -> Verdict:
    """ACCEPT, REJECT or UNDECIDED for a candidate whose measurement is valid; 95 % intervals throughout.

    A tax without a value (no byte win to tax) decides nothing: then W_spec alone does. group: of conf/, where a remedy
    finds the numbers of prompts and rounds.
    """
    for unit, n in (("prompt", prompts), ("round", rounds)):
        if n < 2:
            few = frozenset([f"{unit}s"])
            return Verdict(Name.UNDECIDED, f"one {unit} has no interval", remedy=f"more {unit}s (1 now)", wanted=few)
    win, tax = figures.estimate("speed/W_spec"), figures.estimate("tax/counted")
    floor = 1 + rules.margin
    taxed = tax.low > rules.tax_threshold
    if taxed or win.high < floor:
        return _reject(figures, taxed, win.high < floor)
    cheap = tax.high < rules.tax_threshold or math.isnan(tax.value)
    if cheap and win.low > floor:
        return Verdict(Name.ACCEPT, f"W_spec {win:.3f}, {_tax(tax)}")
    reasons, remedies, wanted = [], [], set()
    if not cheap:
        reasons.append(f"tax {tax:.0%} straddles {100 * rules.tax_threshold:g} %")
        remedies.append(_needed("prompts", prompts, tax, rules.tax_threshold, group))
        wanted.add("prompts")
    if not win.low > floor:
        reasons.append(f"W_spec {win:.3f} straddles {floor:g}")
        unit, n = ("rounds", rounds) if _clock_is_wider(figures) else ("prompts", prompts)
        remedies.append(_needed(unit, n, win, floor, group))
        wanted.add(unit)
    remedy = "; ".join(dict.fromkeys(remedies))
    return Verdict(Name.UNDECIDED, "; ".join(reasons), remedy=remedy, wanted=frozenset(wanted))


def _reject(figures: Figures, taxed: bool, no_win: bool) -> Verdict:
    """Acceptance is what ate it where the tax says so; else the largest loss."""
    counted, clocked = figures.estimate("tax/counted"), figures.estimate("tax/clocked")
    largest = max(LOSSES, key=lambda name: figures[LOSSES[name]])
    component = "acceptance" if taxed else largest
    reasons = []
    if taxed:
        reasons.append(f"acceptance ate {counted:.0%} of the byte win")
    if no_win:
        why = "no win even at equal acceptance" if figures["tax/potential"] <= 0 else "no win"
        reasons.append(f"{why}: W_spec {figures.estimate('speed/W_spec'):.3f}")
        if largest != "acceptance" or not taxed:
            loss = 100 * figures[LOSSES[largest]]
            reasons.append(f"{largest} took {'more' if taxed else 'most'}, {loss:.1f} log-%")
    if taxed and clocked.high < counted.low:
        reasons.append(f"the clock sees less, {clocked:.0%}: the kernels are part of the story")
    return Verdict(Name.REJECT, "; ".join(reasons), component)


def _clock_is_wider(figures: Figures) -> bool:
    """Is W_spec uncertain more by the clock than by the count? Variances of logarithms add."""
    whole, counted = (
        math.log(e.high / e.low) ** 2
        for e in (figures.estimate("speed/W_spec"), figures.estimate("accept/tau_ratio"))
    )
    return not whole < 2 * counted


def _needed(unit: str, n: int, estimate: Estimate, threshold: float, group: str) -> str:
    """An interval shrinks with √n: how many units bring its nearer end to the threshold."""
    distance = abs(estimate.value - threshold)
    half = max(estimate.high - estimate.value, estimate.value - estimate.low)
    if half > distance * math.sqrt(HOPELESS):
        return f"too close to call: even {HOPELESS} times the {unit} may not decide"
    needed = math.ceil(n * (half / distance) ** 2)
    return f"about {needed} {unit} would decide, {n} now: {group}.{unit}={needed}"


def _tax(tax: Estimate) -> str:
    if math.isnan(tax.value):
        return "no byte win to tax"
    return f"bonus {-tax:.0%}" if tax.high < 0 else f"tax {tax:.0%}"
