"""What was predicted beside what was measured, and how far off it is."""

import numpy as np

from acctax.analyze.sweep import Sweep
from acctax.report.tables.table import Table, per_cell
from acctax.report.tables.text import number, percent

MODELS = {
    "forecast": "τ along the reference's text, over a cycle's bytes at the read bandwidth; nothing decoded or clocked",
    "classic": "BW_eff/B_token·τ/(1+K·c)",
    "refined": "τ/(T(K+1)+D+O), O from a plain step",
}
FAR = 0.25  # of what was measured
SIMPLE = "it takes kernels to run at the read bandwidth and the drafter to cost its bytes"


def known_models(sweep: Sweep) -> dict[str, float]:
    """Models that predicted something → how far off, the median over both arms of all cells."""
    residuals = {model: sweep.median_residual(model) for model in MODELS}
    return {model: residual for model, residual in residuals.items() if np.isfinite(residual)}


def predictions(sweep: Sweep) -> Table | None:
    known = known_models(sweep)
    if not known:
        return None
    return per_cell(
        sweep, "predictions", "Predicted speculative tok/s of the candidate, and how far off",
        ("measured", *(column for model in known for column in (model, "off"))),
        lambda row: (
            number(row["speed/tok_s"], 1),
            *(cell for model in known for cell in (number(row[f"predict/{model}_tok_s"], 1),
                                                   percent(row[f"predict/{model}_residual"]))),
        ),
        note=" ".join(f"{model}: {MODELS[model]}; off by {100 * residual:.1f} % in the median of both arms"
                      f"{', '.join(['', *why_far(model, residual)])}." for model, residual in known.items()),
    )  # fmt: skip


def why_far(model: str, residual: float) -> list[str]:
    """A clause on a model that is much too simple for what was measured, if it is."""
    return [f"far off since {SIMPLE}"] if model == "forecast" and residual > FAR else []
