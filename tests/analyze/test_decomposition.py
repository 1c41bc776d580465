import json
import math
from pathlib import Path

import numpy as np
import pytest

from acctax.analyze.decomposition import Corner, decompose

PUBLIC = json.loads((Path(__file__).parents[1] / "fixtures" / "public_sweeps.json").read_text())


def test_published_example():
    example = PUBLIC["decomposition_example"]
    rest = example["K"] * example["T_draft_ms"] + example["overhead_ms"]
    r, c = (
        Corner(1.0, side["T1_ms"], side["Tverify_ms"], side["Tverify_ms"] + rest, side["tau"])
        for side in (example["reference"], example["candidate"])
    )
    parts, expect = decompose(r, c), example["expect"]
    assert parts.W_AR == pytest.approx(expect["W_AR"], abs=5e-4)
    assert parts.W_spec == pytest.approx(expect["W_spec"], abs=5e-4)
    gap = math.log(parts.W_AR / parts.W_spec)
    assert gap == pytest.approx(expect["log_gap"], abs=5e-4)
    share = expect["share"]
    assert parts.acceptance / gap == pytest.approx(share["acceptance"], abs=6e-3)
    assert parts.verify_width / gap == pytest.approx(share["verify_width"], abs=6e-3)
    assert parts.draft_and_overhead / gap == pytest.approx(share["remainder"], abs=6e-3)


def test_llama_cpp_10594_loses_more_than_it_won():
    """The published speeds alone: what plain decoding won and speculation lost again."""
    case = PUBLIC["llama_cpp_10594"]
    ar, spec, expect = case["ar_tok_s"], case["spec_tok_s"], case["expect"]
    r, c = (Corner(1.0, 1 / ar[name], 1 / ar[name], 1 / spec[name], tau=1.0) for name in ("F16", "Q4_K_M"))
    parts = decompose(r, c)
    assert parts.W_AR == pytest.approx(expect["W_AR"], abs=5e-3)
    assert parts.W_spec == pytest.approx(expect["W_spec"], abs=5e-3)
    assert math.log(parts.W_AR / parts.W_spec) / math.log(parts.W_AR) == pytest.approx(
        expect["log_share_lost"], abs=6e-3
    )


def test_losses_sum_to_the_gap_exactly():
    rng = np.random.default_rng(0)
    r, c = (Corner(rng.uniform(0.5, 2), *rng.uniform(0.5, 4, (4, 1000))) for _ in range(2))
    parts = decompose(r, c)
    gap = np.log(parts.W_bytes) - np.log(parts.W_spec)
    assert sum(parts.losses.values()) == pytest.approx(gap, abs=1e-12)
