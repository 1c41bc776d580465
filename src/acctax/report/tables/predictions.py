"""What was predicted beside what was measured, and how far off it is."""

import numpy as np

from acctax.analyze.sweep import Sweep
from acctax.report.tables.table import Table, per_cell
from acctax.report.tables.text import number, percent

MODELS = {
    "classic": "BW_eff/B_token·τ/(1+K·c)",
    "refined": "τ/(T(K+1)+D+O) of parts measured apart from this cell's cycle",
    "forecast": "before any decoding: bytes, bandwidth, same-context acceptance",
}


def predictions(sweep: Sweep) -> Table | None:
    known = {model: how for model, how in MODELS.items() if median_residual(sweep, model)}
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
        note=" ".join(f"{model}: {how}; median {median_residual(sweep, model)} off, either way."
                      for model, how in known.items()),
    )  # fmt: skip


def median_residual(sweep: Sweep, model: str) -> str:
    """Over both arms of all cells; empty where the model predicted none."""
    residuals = np.array([row[f"predict/{model}_residual{arm}"] for row in sweep.rows for arm in ("", "_ref")])
    known = residuals[np.isfinite(residuals)]
    return f"{100 * np.median(np.abs(known)):.1f} %" if known.size else ""
