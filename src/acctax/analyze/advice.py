"""What to run or change next, from a scheme's verdict and the component that decided it."""

import re
from collections.abc import Iterable

import numpy as np

from acctax.analyze.best_k import predicted_K
from acctax.analyze.noise_floor import is_restless
from acctax.analyze.rows import Row
from acctax.analyze.sweep import Scheme
from acctax.analyze.validity import DISTURBED
from acctax.analyze.verdicts import LOSSES, Name

_K = re.compile(r"(?<=\sK=)[\d,]+")


def commands(rows: Iterable[Row]) -> list[str]:
    """The commands that measure these cells again, those that differ in K alone as one."""
    merged: dict[str, set[int]] = {}
    for row in rows:
        if row.rerun:
            merged.setdefault(_K.sub("*", row.rerun), set()).add(row.K)
    return [command.replace(" K=*", f" K={','.join(map(str, sorted(Ks)))}") for command, Ks in merged.items()]


def advise(scheme: Scheme) -> str:
    """For the scheme's headline cell; nothing for a reference."""
    row = scheme.headline
    if row.verdict == Name.INVALID:
        mend = "measure it again on a quieter machine" if row.reason.startswith(DISTURBED) else "mend the measurement"
        return f"{mend}; an invalid cell takes part in no ranking"
    if row.verdict == Name.UNDECIDED:
        loses = row.estimate("speed/speedup").high < 1
        return "; ".join([row.remedy, *(_retune(scheme, row) if loses else ())])
    if row.verdict == Name.REFERENCE:
        return "a quieter machine, or more rounds: the reference differs from itself" if is_restless([row]) else ""
    steps = _remedy(row) if row.verdict == Name.REJECT else []
    return ", or ".join(steps + _retune(scheme, row))


def _remedy(row: Row) -> list[str]:
    """Against what ate the win, where without it there would be one."""
    without = row["speed/W_spec"] * np.exp(row[LOSSES[row.component]])
    return [_against(row, without)] if without > 1 else []


def _against(row: Row, without: float) -> str:
    then = f"(without this loss W_spec would be {without:.2f})"
    if row.component == "acceptance":
        is_self = str(row.choices["draft_source"]).startswith("self")
        own = "draft_source.recipe=…" if is_self else "draft_source=…"
        return f"try a drafter that shares the candidate's error, {own} {then}"
    if row.component == "kernels":
        return (
            f"faster kernels, a pass reads {row['bytes/BW_eff_GBs']:.1f} GB/s, the reference's "
            f"{row['bytes/BW_eff_GBs_ref']:.1f}, the machine {row['bytes/bandwidth_GBs']:.1f} {then}"
        )
    if row.component == "verify width":
        width, width_ref = (row[f"time/T_verify_ms{s}"] / row[f"time/T1_ms{s}"] for s in ("", "_ref"))
        return (
            f"a smaller K, or a kernel for {row.K + 1} rows: they cost {width:.2f} of one row, "
            f"the reference's {width_ref:.2f} {then}"
        )
    c, c_ref = row["time/c"], row["time/c_ref"]
    return f"a cheaper drafter or a smaller K: c is {c:.2f}, the reference's {c_ref:.2f} {then}"


def _retune(scheme: Scheme, row: Row) -> list[str]:
    best, best_ref = scheme.best_K(), scheme.best_K("_ref")
    if best is None:
        return ["ship it"] if row.verdict == Name.ACCEPT else []
    as_loaded = best_ref.speedup / row["speed/W_total"]  # the reference's speed over the candidate's
    if row.verdict == Name.REJECT and as_loaded > max(1.0, 1 / row["speed/speedup"]):  # and over its plain decoding's
        return [f"quantize nothing: at K={best_ref.K} the reference is {as_loaded:.2f} times as fast"]
    if best.K == 0:
        return [_decode_plainly(scheme, row)]
    if row.verdict == Name.ACCEPT and str(row.choices["draft_source"]).startswith("synthetic"):
        return ["measure it with a drafter that drafts: here acceptance was given, and the clock alone decided"]
    if row.verdict == Name.ACCEPT:
        return [f"ship it at K={best.K}" if len(scheme.valid) > 1 else "ship it, and sweep K for its best"]
    return [f"re-tune K: its best is {best.K}, the reference's {best_ref.K}"] * (best.K != best_ref.K)


def _decode_plainly(scheme: Scheme, row: Row) -> str:
    """Unless a K that was not measured is predicted to gain on it."""
    drafting = (other for other in scheme.valid if other.K)
    shown = row if row.K else max(drafting, key=lambda other: np.nan_to_num(other["speed/speedup"]))
    reached = f"at K={shown.K} speculation reaches {shown.estimate('speed/speedup'):.2f} of plain decoding's speed"
    predicted = predicted_K(scheme.valid)
    if not predicted.refined or scheme.at(predicted.refined):
        return f"decode plainly, K=0: {reached}"
    gains = f"K={predicted.refined} is predicted to reach {predicted.speedups[predicted.refined]:.2f}"
    return f"measure K={predicted.refined}, or decode plainly, K=0: {reached}, {gains}"
