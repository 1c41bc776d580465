"""From intervals to a decision. Acceptance is judged by the counted tax, the win by the clocked W_spec."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from acctax.analyze.figures import Figures
from acctax.analyze.intervals import FEWEST, Estimate

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


def decide(
    figures: Figures, rules: Rules, prompts: int, rounds: int, group: str = "measure", looped: int = 0
) -> Verdict:
    """ACCEPT, REJECT or UNDECIDED for a candidate whose measurement is valid; 95 % intervals throughout.

    A tax without a value (no byte win to tax) decides nothing: then W_spec alone does. group: of conf/, where a remedy
    finds the numbers of prompts and rounds. looped: prompts that were decoded beside those that count; of more prompts
    a remedy expects as many to loop.
    """
    counted, now = {"prompts": prompts, "rounds": rounds}, {"prompts": prompts + looped, "rounds": rounds}
    if few := {unit: math.ceil(FEWEST * now[unit] / n) for unit, n in counted.items() if n < FEWEST}:
        counts = " and ".join(f"{counted[unit]} {unit if counted[unit] > 1 else unit[:-1]}" for unit in few)
        least = f"{FEWEST} at least{', beside those that loop' * (looped > 0)}: {_fields(few, group)}"
        return Verdict(Name.UNDECIDED, f"{counts}: too few for a 95 % interval", None, least, frozenset(few))
    win, tax = figures.estimate("speed/W_spec"), figures.estimate("tax/counted")
    floor = 1 + rules.margin
    taxed, lost, won = tax.low > rules.tax_threshold, win.high < floor, win.low > floor
    cheap = tax.high < rules.tax_threshold or math.isnan(tax.value)
    contradicted = _contradicted(figures, floor)
    if taxed or lost and not contradicted:
        return _reject(figures, taxed, lost and not contradicted)
    if contradicted:
        again = f"more rounds while nothing else runs: {_fields({'rounds': 2 * rounds}, group)}"
        return Verdict(Name.UNDECIDED, contradicted, None, again, frozenset(["rounds"]))
    if cheap and won:
        return Verdict(Name.ACCEPT, f"W_spec {win:.3f}, {_tax(tax)}")
    reasons, needed = [], {}
    if not cheap:
        reasons.append(f"tax {tax:.0%} straddles {100 * rules.tax_threshold:g} %")
        needed["prompts"] = _needed(now["prompts"], tax, rules.tax_threshold)
    if not won:
        reasons.append(f"W_spec {win:.3f} straddles {floor:g}")
        unit = "rounds" if _clock_is_wider(figures) else "prompts"
        needed[unit] = max(needed.get(unit, 0), _needed(now[unit], win, floor))
    return Verdict(Name.UNDECIDED, "; ".join(reasons), None, _more(needed, now, group), frozenset(needed))


def _contradicted(figures: Figures, floor: float) -> str:
    """Do whole texts, timed end to end, say the opposite of the rounds? In words; empty where they do not."""
    win, texts = figures.estimate("speed/W_spec"), figures.estimate("speed/W_end_to_end")
    if win.high < floor < texts.low or texts.high < floor < win.low:
        return f"two clocks contradict each other: W_spec {win:.3f} over the rounds, {texts:.3f} over whole texts"
    return ""


def _reject(figures: Figures, taxed: bool, no_win: bool) -> Verdict:
    """Acceptance is what ate it where the tax says so; else the largest loss that is beyond its noise."""
    counted, clocked = figures.estimate("tax/counted"), figures.estimate("tax/clocked")
    losses = {name: figures.estimate(figure) for name, figure in LOSSES.items()}
    if figures["bytes/W"] == 1:  # the target is as it was, its passes are the same in both arms
        del losses["kernels"], losses["verify width"]
    beyond = [name for name, loss in losses.items() if loss.low > 0]
    largest = max(beyond or losses, key=lambda name: losses[name].value)
    component = "acceptance" if taxed else largest
    reasons = []
    if taxed:
        reasons.append(f"acceptance ate {counted:.0%} of the byte win")
    if no_win:
        why = "no win even at equal acceptance" if figures["tax/potential"] <= 0 else "no win"
        reasons.append(f"{why}: W_spec {figures.estimate('speed/W_spec'):.3f}")
        if largest != "acceptance" or not taxed:
            loss = 100 * losses[largest].value
            noise = "" if beyond else ", though no loss alone is beyond its noise"
            reasons.append(f"{largest} took {'more' if taxed else 'most'}, {loss:.1f} log-%{noise}")
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


def _needed(n: int, estimate: Estimate, threshold: float) -> float:
    """An interval shrinks with √n: how many units bring its nearer end to the threshold. Infinite beyond HOPELESS."""
    distance = abs(estimate.value - threshold)
    half = max(estimate.high - estimate.value, estimate.value - estimate.low)
    return math.inf if half > distance * math.sqrt(HOPELESS) else math.ceil(n * (half / distance) ** 2)


def _more(needed: Mapping[str, float], now: Mapping[str, int], group: str) -> str:
    """needed: unit → how many of it; all of them are."""
    if hopeless := [unit for unit, n in needed.items() if math.isinf(n)]:
        return f"too close to call: even {HOPELESS} times the {' and '.join(hopeless)} may not decide"
    said = " and ".join(f"{n} {unit} ({now[unit]} now)" for unit, n in needed.items())
    return f"about {said} would decide: {_fields(needed, group)}"


def _fields(needed: Mapping[str, float], group: str) -> str:
    return " ".join(f"{group}.{unit}={n}" for unit, n in needed.items())


def _tax(tax: Estimate) -> str:
    if math.isnan(tax.value):
        return "no byte win to tax"
    return f"bonus {-tax:.0%}" if tax.high < 0 else f"tax {tax:.0%}"
