import math
from dataclasses import replace

import numpy as np
import pytest

from acctax import theory
from acctax.analyze import Rules, analyze, sweep
from acctax.analyze.actions import rank
from acctax.analyze.figures import Figures
from acctax.record import Along, Lever, Scored
from tests.analyze.simulate import LEDGER, NVFP4, QKV, REFERENCE, simulate

RULES = Rules(resamples=300)
EXACT = dict(noise=0, drift=0)
BODY = replace(REFERENCE, alpha=0.95, T1=6e-3, ledger={name: size * NVFP4 for name, size in LEDGER.items()})


def cell(K=3, candidate=BODY, target_quant="nvfp4", **kwargs):
    return analyze(simulate(K, candidate=candidate, target_quant=target_quant, **EXACT | kwargs), RULES)


def action(actions, name):
    (found,) = [action for action in actions if action.name == name]
    return found


def lever(best, component, tau, smaller, drafter=None):
    """A component that takes `smaller` (bytes) off the pass; tau on the text where the reference has 4, or unknown."""
    cycle = {"all": 1e6 * best["bytes/cycle_MB"] - 3 * REFERENCE.drafter - smaller}
    cycle["drafter"] = 3 * REFERENCE.drafter if drafter is None else drafter
    r, c = (Along([0.0] * 3, [50 * (own - 1), 25 * (own - 1), 25 * (own - 1)]) for own in (4.0, tau or 1.0))
    scored = [Scored("p", 100, 0.0, 0.0, 100, 1.0, 1.0, 100, r, c)] if tau else []
    return Lever(component, [], {}, cycle, scored)


def test_kernels_at_the_ceiling_leave_bytes_over_bandwidth_and_the_overhead():
    best = cell()
    C = (sum(BODY.ledger.values()) + 3 * BODY.drafter) / 21.3e9 + BODY.overhead
    found = action(rank(sweep([best])), "kernels at the bandwidth ceiling")
    assert found.tok_s == pytest.approx(best["accept/tau"] / C)
    assert found.gain == pytest.approx(BODY.C(3) / C - 1)
    assert found.known == "bound" and math.isnan(found.low)


def test_look_up_reads_nothing_so_that_no_bandwidth_quickens_it():
    best = cell(candidate=replace(BODY, drafter=0.0), reference=replace(REFERENCE, drafter=0.0))
    C = sum(BODY.ledger.values()) / 21.3e9 + 3 * BODY.draft + BODY.overhead
    assert action(rank(sweep([best])), "kernels at the bandwidth ceiling").gain == pytest.approx(BODY.C(3) / C - 1)


def test_overhead_gone():
    found = action(rank(sweep([cell()])), "no overhead")
    assert found.gain == pytest.approx(BODY.C(3) / (BODY.C(3) - BODY.overhead) - 1)


def test_an_overhead_below_the_clocks_noise_is_no_lever():
    """A cycle that was clocked shorter than its own parts."""
    best = cell()
    values = {"time/O_ms": -0.5, "time/C_ms": best["time/C_ms"] - 0.5 - best["time/O_ms"]}
    actions = rank(sweep([replace(best, figures=Figures(best.figures.values | values))]))
    assert "no overhead" not in {a.name for a in actions}
    C = best["bytes/cycle_MB"] / best["bytes/bandwidth_GBs"]  # ms, and nothing is taken off it
    assert action(actions, "kernels at the bandwidth ceiling").gain == pytest.approx(values["time/C_ms"] / C - 1)


def test_plain_decoding_is_measured_and_never_predicted():
    """It would be predicted to be the best; every cell has clocked it."""
    slow = replace(BODY, alpha=0.3, draft=13e-3)
    actions = rank(sweep([cell(K, slow, reference=replace(REFERENCE, alpha=0.3, draft=13e-3)) for K in (1, 2)]))
    assert "K=0" not in {a.name for a in actions} and action(actions, "plain decoding, K=0").gain > 0


def test_what_changes_nothing_is_no_lever():
    best = cell()
    found = {a.name for a in rank(sweep([best]), [lever(best, "o", None, 0.0), lever(best, "mlp", None, 40e6)])}
    assert "mlp quantized, bytes alone" in found and "o quantized, bytes alone" not in found


def test_a_better_drafter():
    best = cell()
    alpha = best["accept/alpha_geo"]
    gain = theory.tau(min(alpha + 0.05, 1), 3) / best["accept/tau"] - 1
    assert action(rank(sweep([best])), "α + 0.05").gain == pytest.approx(float(gain))


def test_a_K_that_was_not_measured():
    """K = 1 and 6 were, 3 is the best: acceptance and times of the deepest cell tell."""
    side = replace(BODY, alpha=0.75, draft=2e-3)
    found = rank(sweep([cell(K, side, prompts=300, spread=0) for K in (1, 6)]))
    speed = {K: theory.tau(0.75, K) / side.C(K) for K in range(1, 7)}
    best = max(speed, key=speed.get)
    assert best in (2, 3, 4)
    assert action(found, f"K={best}").gain == pytest.approx(speed[best] / max(speed[1], speed[6]) - 1, abs=0.02)


def test_other_cells_are_measured_and_drift_between_jobs_is_not_in_them():
    """QKV alone was measured while the machine was twice as fast; over plain decoding it is the slower one."""
    fast = simulate(3, candidate=QKV, target_quant="nvfp4_qkv", **EXACT)
    halved = {}
    for name in ("reference", "candidate"):
        arm = getattr(fast, name)
        rounds = [replace(r, T={M: t / 2 for M, t in r.T.items()}, D=r.D / 2, C=r.C / 2, C_ar=r.C_ar / 2)
                  for r in arm.rounds]  # fmt: skip
        halved[name] = replace(arm, rounds=rounds, prompts=[replace(p, seconds=p.seconds / 2) for p in arm.prompts])
    best, other = cell(), analyze(replace(fast, **halved), RULES)
    assert other["speed/tok_s"] > best["speed/tok_s"]
    measured = sweep([other, best])
    assert measured.best is best
    found = action(rank(measured), "nvfp4_qkv, K=3")
    assert found.known == "measured" and found.gain < 0
    assert found.gain == pytest.approx(other["speed/W_total"] / best["speed/W_total"] - 1)
    assert found.low < found.gain < found.high
    assert found.tok_s == pytest.approx(best["speed/tok_s"] * (1 + found.gain))


def test_what_loses_comes_last():
    best = cell()
    actions = rank(sweep([best, cell(candidate=QKV, target_quant="nvfp4_qkv")]))
    assert [a.gain for a in actions] == sorted((a.gain for a in actions), reverse=True)
    lost = {a.name for a in actions if a.gain < 0}
    assert {"nvfp4_qkv, K=3", "nothing quantized, self:int8_all K=3"} <= lost


def test_nothing_quantized_may_be_the_best():
    worse = cell(candidate=replace(QKV, alpha=0.5, T1=13e-3), target_quant="nvfp4_qkv")
    found = action(rank(sweep([worse])), "nothing quantized, self:int8_all K=3")
    assert found.known == "measured" and found.gain == pytest.approx(1 / worse["speed/W_spec"] - 1)


def test_plain_decoding_may_be_the_best():
    slow = replace(QKV, alpha=0.3, draft=13e-3)
    row = cell(candidate=slow, reference=replace(REFERENCE, alpha=0.3, draft=13e-3), target_quant="nvfp4_qkv")
    actions = rank(sweep([row]))
    plain = action(actions, "plain decoding, K=0")
    assert plain.known == "measured" and plain.gain == pytest.approx(1 / row["speed/speedup"] - 1) and plain.gain > 0
    assert action(actions, "nothing quantized, plain decoding").gain == pytest.approx(1 / row["speed/W_total"] - 1)


def with_same_tau(row, tau):
    """The best cell's own τ along that text."""
    return replace(row, figures=Figures({**row.figures.values, "same/tau_ratio": tau / 4.0}))


def test_a_component_to_quantize_saves_bytes_and_costs_acceptance():
    best = with_same_tau(cell(), 3.0)
    (scheme,) = (measured := sweep([best])).schemes
    own = sum(BODY.ledger.values())
    saves, costs, unscored = (action(rank(measured, levers), f"{name} quantized{tail}") for name, tail, levers in (
        ("lm_head", "", [lever(best, "lm_head", 3.0, smaller=0.2 * own)]),
        ("o", "", [lever(best, "o", 2.4, smaller=0.01 * own)]),
        ("kv cache", ", bytes alone", [lever(best, "kv cache", None, smaller=0.2 * own)]),
    ))  # fmt: skip
    assert saves.gain == pytest.approx(BODY.C(3) / (BODY.C(3) - 0.2 * BODY.T(4)) - 1)
    assert costs.gain == pytest.approx(0.8 * BODY.C(3) / (BODY.C(3) - 0.01 * BODY.T(4)) - 1)
    assert costs.gain < 0 and saves.known == "predicted"
    assert unscored.gain == pytest.approx(saves.gain)


def test_the_drafter_is_a_component_too():
    best = with_same_tau(cell(), 3.0)
    halved = lever(best, "drafter", 2.7, smaller=0, drafter=1.5 * REFERENCE.drafter)
    gain = 0.9 * BODY.C(3) / (BODY.C(3) - 1.5 * BODY.draft) - 1
    assert action(rank(sweep([best]), [halved]), "drafter quantized").gain == pytest.approx(gain)


def test_other_workloads_are_no_alternatives():
    actions = rank(sweep([cell(), cell(candidate=QKV, target_quant="nvfp4_qkv", workload="code")]))
    assert not [a for a in actions if a.name.startswith("nvfp4_qkv")]


def test_references_alone_have_levers_too():
    row = analyze(simulate(3, candidate=REFERENCE, is_reference=True, **EXACT), RULES)
    actions = rank(sweep([row]))
    assert {a.name for a in actions} == {"kernels at the bandwidth ceiling", "no overhead", "α + 0.05"}
    assert not any(a.known == "measured" for a in actions)


def test_plain_decoding_has_no_draft_levers():
    actions = rank(sweep([cell(K=0)]))
    assert {a.name for a in actions if a.known != "measured"} == {"kernels at the bandwidth ceiling", "no overhead"}


def test_nothing_valid():
    broken = simulate()
    row = analyze(replace(broken, candidate=replace(broken.candidate, bytes_ar={})), RULES)
    assert rank(sweep([row])) == [] and np.isnan(row["speed/W_total"])
