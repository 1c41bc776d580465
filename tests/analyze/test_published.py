"""Sweeps that others published, through the analysis: what they found must come out."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from acctax import theory
from acctax.analyze import Rules, analyze, sweep
from acctax.analyze.best_k import best_K
from acctax.analyze.decomposition import Corner, decompose
from acctax.analyze.figures import Figures
from tests.analyze.simulate import simulate

PUBLIC = json.loads((Path(__file__).parents[1] / "fixtures" / "public_sweeps.json").read_text())
CELL = analyze(simulate(), Rules(resamples=100))


def cell(K, figures, **choices):
    """A row that holds what was published and nothing else."""
    return replace(CELL, choices=CELL.choices | {"K": K} | choices, figures=Figures(figures), draws={})


def over_K(K, speedups):
    return [cell(k, {"speed/speedup": s}) for k, s in zip(K, speedups)]


@pytest.mark.parametrize("head", ["eagle1", "eagle3"])
def test_vllm_20780(head):
    case = PUBLIC["vllm_20780"]
    K, tau, tpot = case["K"], np.array(case[head]["tau"]), np.array(case[head]["tpot_ms"])
    assert best_K(over_K(K, case["vanilla_tpot_ms"] / tpot)).K == case["expect"]["K_star"][head]
    a, b = theory.fit_cycle(K, tau * tpot)
    assert a == pytest.approx(case[head]["fit_cycle_ms"]["a"], abs=5e-3)
    assert b == pytest.approx(case[head]["fit_cycle_ms"]["b"], abs=5e-4)
    fitted = case["vanilla_tpot_ms"] * tau / (a + b * np.array(K))
    assert best_K(over_K(K, fitted)).K == case["expect"]["K_star"][head]


def test_vllm_20780_a_better_head_wants_more_drafts():
    expect = PUBLIC["vllm_20780"]["expect"]
    assert expect["K_star"]["eagle3"] > expect["K_star"]["eagle1"]
    case = PUBLIC["vllm_20780"]
    alpha = {head: theory.alpha_geo(case[head]["tau"][0], 2) for head in ("eagle1", "eagle3")}
    assert alpha["eagle3"] > alpha["eagle1"]


@pytest.mark.parametrize("workload", ["gsm8k", "humaneval", "mt_bench"])
def test_draft_length_audit(workload):
    case = PUBLIC["draft_length_audit"]
    c = theory.fit_c(case["K"], case["tau"][workload], case["speedup"][workload])
    assert c == pytest.approx(case["c_fit"][workload], abs=5e-4)
    for K, tau, speedup in zip(case["K"], case["tau"][workload], case["speedup"][workload]):
        assert theory.speedup(tau, K, c) == pytest.approx(speedup, rel=0.03)


def test_cliff_in_K():
    case = PUBLIC["cliff_in_K"]
    plain = case["tok_s"][case["K"].index(0)]
    best = best_K(over_K(case["K"], np.array(case["tok_s"]) / plain))
    assert best.K == case["K_star"]
    assert 6 not in best.ties and 3 not in best.ties  # 58.4 is 1.2 % below the best


def test_rank_inversion():
    """The target that is fastest alone is the slowest with a drafter."""
    case = PUBLIC["rank_inversion"]
    plain, speculative = case["ar_tok_s"], case["best_spec_tok_s"]
    rows = [cell(4, {"speed/W_AR": plain[q] / plain["FP16"], "speed/W_total": speculative[q] / plain["FP16"],
                     "speed/speedup": speculative[q] / plain[q]}, target_quant=q) for q in plain]  # fmt: skip
    best = sweep(rows).best
    assert best.choices["target_quant"] == max(speculative, key=speculative.get) == "Q8_0"
    ranked = [[row.choices["target_quant"] for row in sorted(rows, key=lambda row: -row[figure])]
              for figure in ("speed/W_AR", "speed/W_total")]  # fmt: skip
    assert ranked == [["Q4_K_M", "Q8_0", "FP16"], ["Q8_0", "FP16", "Q4_K_M"]]


def test_specmquant_loses_most_of_a_4_bit_win():
    """Published speeds over plain FP16; what the text says of them: W4A16 is below W8A8 once it speculates."""
    case = PUBLIC["specmquant_fig1_8b_a100"]

    def parts(name):
        r, c = (Corner(1.0, 1 / case["ar"][q], 1 / case["ar"][q], 1 / case["spec"][q], tau=1.0) for q in ("FP16", name))
        return decompose(r, c)

    four, eight = parts("W4A16"), parts("W8A8")
    assert four.W_AR > eight.W_AR and four.W_spec < eight.W_spec
    assert 1 - np.log(four.W_spec) / np.log(four.W_AR) == pytest.approx(0.83, abs=0.01)


@pytest.mark.parametrize("quant", sorted(PUBLIC["gemma4_31b_mtp_T03"].keys() - {"source"}))
def test_gemma4_tau_is_of_the_mean_acceptance(quant):
    case = PUBLIC["gemma4_31b_mtp_T03"][quant]
    assert theory.alpha_mean(case["tau"], 4) == pytest.approx(case["a4"] / 100)
