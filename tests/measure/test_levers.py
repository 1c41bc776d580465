"""What is still as loaded is quantized further, counted as it is stored and scored on the reference's text."""

import pytest

from acctax.measure.job import measure
from acctax.measure.levers import measure_levers
from acctax.progress import Progress
from acctax.record import levers_from_json, levers_to_json

SMALL = ["target=random_llama", "measure.prompts=3", "measure.max_new_tokens=8", "measure.rounds=2",
         "measure.cycles=1", "K=2"]  # fmt: skip


@pytest.fixture
def pull(compose):
    def pull(*overrides):
        cell = compose(*SMALL, *overrides)
        record = measure(cell, Progress.silent())
        return record, measure_levers(cell, record, Progress.silent())

    return pull


def test_levers_of_a_candidate(pull):
    record, levers = pull("target_quant=nvfp4_qkv")
    by_name = {lever.component: lever for lever in levers}
    assert list(by_name) == ["kv cache", "lm_head", "o", "mlp", "drafter"]  # q, k and v are quantized already
    base = record.candidate
    for name, shrunk in {"lm_head": {"lm_head"}, "o": {"o"}, "mlp": {"gate", "up", "down"}, "kv cache": {"kv"}}.items():
        lever = by_name[name].bytes_ar
        assert {component for component in base.bytes_ar if lever[component] != base.bytes_ar[component]} == shrunk
        assert all(lever[component] < 0.35 * base.bytes_ar[component] for component in shrunk)
    assert by_name["drafter"].bytes_ar == base.bytes_ar
    assert by_name["drafter"].bytes_cycle["drafter"] < base.bytes_cycle["drafter"]
    assert by_name["kv cache"].same_context == [] and by_name["kv cache"].recipe == []
    for name in ("lm_head", "o", "mlp", "drafter"):
        assert [scored.prompt_id for scored in by_name[name].same_context] == [p.prompt_id for p in base.prompts]
        assert all(len(scored.candidate.alive) == 2 for scored in by_name[name].same_context)
    assert all(scored.tv > 0 for scored in by_name["o"].same_context)
    assert levers_from_json(levers_to_json(levers)) == levers


def test_a_component_of_which_a_part_is_left(pull):
    _, levers = pull('target_quant.rules=[{pattern: "*.q_proj", format: int8}, {pattern: "*.mlp.*", format: int8}]')
    recipes = {lever.component: lever.recipe for lever in levers}
    assert recipes["q,k,v"] == ["*.k_proj", "*.v_proj"] and "mlp" not in recipes


def test_without_drafts_no_drafter(pull):
    _, levers = pull("draft_source=none", "K=0", "target_quant=int8_all")
    assert [lever.component for lever in levers] == ["kv cache"]
