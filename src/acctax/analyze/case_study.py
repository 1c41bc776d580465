"""Figures that others published, as a row: they go through the same analysis, and what they leave out has no value."""

from dataclasses import dataclass

import numpy as np

from acctax import theory
from acctax.analyze.decomposition import Corner
from acctax.analyze.figures import Figures
from acctax.analyze.intervals import Draws
from acctax.analyze.rows import Row, compare
from acctax.analyze.verdicts import Name, Rules


@dataclass(frozen=True)
class Side:
    tok_s: float  # speculative
    tau: float


@dataclass(frozen=True)
class CaseStudy:
    """One step of quantization, before and after."""

    source: str
    target: str
    target_quant: str
    draft_source: str
    K: int
    share: float  # of a plain step's bytes, that was quantized
    left: float  # of those bytes, after it
    reference: Side
    candidate: Side


def read_case_study(study: CaseStudy, rules: Rules = Rules()) -> Row:
    """Its row. Nothing has an interval, so that a tax above the threshold rejects and nothing else is decided."""
    corners = [_corner(study.reference, 1.0), _corner(study.candidate, 1 - study.share * (1 - study.left))]
    arms = (study.reference, "_ref"), (study.candidate, "")
    named = {name + suffix: figure for side, suffix in arms for name, figure in _side(side, study.K).items()}
    figures = Figures.of(named | compare(*corners, W_cycle=np.nan, is_reference=False))
    potential, realized, tax = (figures[f"tax/{name}"] for name in ("potential", "realized", "clocked"))
    taxed = tax > rules.tax_threshold
    return Row(
        choices={"target": study.target, "target_quant": study.target_quant, "drafter_quant": "none",
                 "draft_source": study.draft_source, "K": study.K},
        cell_id="",
        is_reference=False,
        verdict=Name.REJECT if taxed else Name.UNDECIDED,
        reason=f"potential {100 * potential:.2f} %, realized {100 * realized:.2f} %, acceptance tax {100 * tax:.1f} % "
               "(published, without intervals)",
        component="acceptance" if taxed else None,
        remedy=None if taxed else "intervals would decide",
        wanted=frozenset(),
        figures=figures,
        prompts=0,
        rounds=0,
        environment={"source": study.source},
        rerun="",
    )  # fmt: skip


def _corner(side: Side, bytes_token: float) -> Corner[Draws]:
    """tok/s = τ/C gives the cycle; how it splits was not published."""
    unknown = np.array([np.nan])
    tau, tok_s = np.array([side.tau]), np.array([side.tok_s])
    return Corner(bytes_token, T1=unknown, T_verify=unknown, C=tau / tok_s, tau=tau)


def _side(side: Side, K: int) -> dict[str, float]:
    return {
        "speed/tok_s": side.tok_s,
        "accept/tau": side.tau,
        "accept/alpha_geo": float(theory.alpha_geo(side.tau, K)),
        "accept/alpha_mean": float(theory.alpha_mean(side.tau, K)),
    }
