import json
import math
from pathlib import Path

import numpy as np
import pytest

from acctax import theory

PUBLIC = json.loads((Path(__file__).parent / "fixtures" / "public_sweeps.json").read_text())


def test_case_study_gives_the_published_tax():
    study, expect = PUBLIC["case_study"], PUBLIC["case_study"]["expect"]
    K, before, after = study["K"], study["before"], study["after"]
    R, A = after["tok_s"] / before["tok_s"], after["tau"] / before["tau"]
    assert R == pytest.approx(expect["observed_ratio"], abs=5e-5)
    assert A == pytest.approx(expect["tau_ratio"], abs=5e-5)
    assert R / A == pytest.approx(expect["implied_B_ratio"], abs=5e-5)
    assert 1 - A / R == pytest.approx(expect["B_token_fall"], abs=5e-4)
    assert theory.potential(R, A) == pytest.approx(expect["potential_gain"], abs=5e-5)
    assert R - 1 == pytest.approx(expect["realized_gain"], abs=5e-5)
    assert theory.acceptance_tax(R, A) == pytest.approx(expect["acceptance_tax"], abs=5e-4)
    drop = theory.alpha_mean(before["tau"], K) - theory.alpha_mean(after["tau"], K)
    assert drop == pytest.approx(expect["alpha_mean_drop"], abs=5e-4)


def test_case_study_ledger():
    study, expect = PUBLIC["case_study"], PUBLIC["case_study"]["expect"]
    fall = study["qkv_share_of_B_token"] * (1 - study["nvfp4_bytes_per_weight"] / 2)
    assert fall == pytest.approx(expect["ledger_B_token_fall"], abs=5e-5)
    head, K = study["mtp_head_gb"], study["K"]
    share = head / (study["target_gb"] + K * head)
    assert share == pytest.approx(expect["mtp_share_of_traffic_one_pass"], abs=5e-4)


@pytest.mark.parametrize("row", PUBLIC["optimal_K"]["rows"])
def test_optimal_K(row):
    K = theory.optimal_K(row["alpha"], row["c"])
    assert K == row["K"]
    assert theory.speedup(theory.tau(row["alpha"], K), K, row["c"]) == pytest.approx(row["S"], abs=6e-3)


def test_halving_c_buys_depth():
    case = PUBLIC["optimal_K"]["halving_c"]
    best = {}
    for side in ("from", "to"):
        c = case[side]["c"]
        K = theory.optimal_K(case["alpha"], c)
        assert K == case[side]["K"]
        best[side] = theory.speedup(theory.tau(case["alpha"], K), K, c)
    assert best["to"] / best["from"] - 1 == pytest.approx(case["gain"], abs=0.015)


@pytest.mark.parametrize("name", ["eagle1", "eagle3"])
def test_constant_alpha_extrapolates_to_the_published_tau(name):
    case = PUBLIC["vllm_20780"]
    alpha = theory.alpha_geo(case[name]["tau"][0], case["K"][0])
    expect = case["expect"]["constant_alpha_from_K2_predicts_tau7"][name]
    assert theory.tau(alpha, 7) == pytest.approx(expect, abs=0.015)


@pytest.mark.parametrize("K", [1, 3, 8, 64])
def test_alpha_geo_inverts_tau(K):
    alpha = np.array([0.0, 0.2, 0.785, 0.999, 1.0])
    assert theory.alpha_geo(theory.tau(alpha, K), K) == pytest.approx(alpha, abs=1e-9)


def test_tau_ends():
    assert theory.tau(0.0, 5) == 1
    assert theory.tau(1.0, 5) == 6
    assert theory.tau(0.5, 0) == 1


def test_nothing_drafted_has_no_alpha():
    assert np.isnan(theory.alpha_geo(1.0, 0)) and np.isnan(theory.alpha_mean(1.0, 0))


def test_classic_prediction():
    # 20 GB/s over 0.2 GB a token is 100 steps/s; τ 3.5 at K=5, c=0.45 gives a speed-up of 1.08
    assert theory.classic_tok_s(20e9, 0.2e9, 3.5, 5, 0.45) == pytest.approx(107.7, abs=0.05)


def test_tax_without_a_potential_is_the_limit():
    assert theory.acceptance_tax(0.9, 0.95) == math.inf  # R/A < 1: slower even at equal acceptance
    assert theory.acceptance_tax(1.02, 1.05) == -math.inf
    assert np.isnan(theory.acceptance_tax(0.9, 1.0))


def test_counted_tax():
    assert theory.counted_tax(1.5, 1.0) == pytest.approx(0)
    assert theory.counted_tax(1.5, 0.9) == pytest.approx(1 - 0.35 / 0.5)
    assert theory.counted_tax(1.5, 1.1) < 0  # a bonus
    assert theory.counted_tax(1.0, 0.9) == math.inf
