from dataclasses import replace

import pytest

from acctax.config import Recipe, Rule
from acctax.draft.ngram import NgramDraft
from acctax.draft.none import NoDraft
from acctax.errors import ConfigError


def test_the_default_cell(compose):
    cell = compose()
    assert cell.choices() == {
        "target": "smollm2_135m", "target_quant": "bf16", "drafter_quant": "none", "draft_source": "eagle",
        "K": 3, "workload": "mixed", "decoding": "greedy", "device": "cpu", "seed": 0}
    assert cell.is_reference and cell.reference() == cell
    assert cell.workload.file.parent.name == "workload" and cell.workload.file.name == "mixed.jsonl"


def test_auto_is_a_gpu_where_there_is_one(compose, monkeypatch):
    assert compose("device=auto").cell_id == compose("device=cpu").cell_id != compose("device.threads=1").cell_id
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    assert compose().choices()["device"] == compose("device=cuda").choices()["device"] == "cuda"
    assert compose("device=cpu").choices()["device"] == "cpu"


def test_the_reference_loses_every_quant_choice_and_nothing_else(compose):
    cell = compose("target_quant=nvfp4_qkv", "drafter_quant=nvfp4", "K=5", "decoding=sample")
    assert not cell.is_reference
    reference = cell.reference()
    assert reference.is_reference and reference.drafter_quant is None and reference.target_quant == Recipe("bf16")
    assert replace(reference, target_quant=cell.target_quant, drafter_quant=cell.drafter_quant) == cell


def test_a_quantized_drafter_alone_is_a_candidate(compose):
    assert not compose("drafter_quant=nvfp4").is_reference
    assert not compose("drafter_quant=bf16", "draft_source=self").is_reference  # it comes in int8
    assert compose("drafter_quant=bf16", "draft_source=draft_model", "draft_source.path=x").is_reference
    assert compose("drafter_quant=nvfp4", "K=0").is_reference  # nothing is drafted


def test_a_target_without_a_head_of_its_own_drafts_for_itself(compose):
    assert compose("target=random_llama").draft_source.kind == "self"
    assert compose("target=random_llama", "draft_source=ngram").draft_source.kind == "ngram"
    assert compose("target=smollm2_135m", "draft_source=self").draft_source.kind == "self"


def test_rules_keep_their_order_and_group(compose):
    cell = compose('target_quant.rules=[{pattern: "*.q_proj", format: int4, group: 32}, {pattern: "*", format: fp8}]')
    assert cell.target_quant.rules == (Rule("*.q_proj", "int4", 32), Rule("*", "fp8"))


def test_without_a_draft_source_K_is_0(compose):
    cell = compose("draft_source=none")
    assert cell.draft_source == NoDraft() and cell.K == 0
    assert compose("draft_source=ngram").draft_source == NgramDraft(None, 3, "earliest")


def test_cell_id_follows_what_is_measured(compose, tmp_path):
    own = compose("draft_source=self")
    same = ("tracking.experiment=other", "verdict.margin=0.1", f"target.cache_dir={tmp_path}", "measure.resamples=100",
            "measure.levers=false")
    assert {compose("draft_source=self", override).cell_id for override in same} == {own.cell_id}
    other = ("K=4", "seed=1", "measure=standard", "target_quant=int8", "device.threads=1", "draft_source.recipe=nvfp4")
    ids = {compose("draft_source=self", override).cell_id for override in other}
    assert len(ids | {own.cell_id, compose().cell_id}) == len(other) + 2


def test_cell_id_follows_the_prompts(compose, tmp_path):
    file = tmp_path / "prompts.jsonl"
    ids = set()
    for text in ("one", "two"):
        file.write_text(text)
        ids.add(compose("workload=jsonl", f"workload.path={file}").cell_id)
    assert len(ids) == 2


def test_an_imitated_drafter_takes_a_recipe_as_it_would_itself(compose):
    like = ("draft_source=synthetic", "draft_source.like={kind: self, recipe: int8_all}")
    assert compose(*like).is_reference and not compose(*like, "drafter_quant=bf16").is_reference
    assert compose(*like).draft_source.fingerprint == compose("draft_source=self").draft_source.fingerprint != ()


def test_scheme_is_the_same_for_every_K(compose):
    assert compose("K=1").scheme == compose("K=6").scheme != compose("K=6", "decoding=sample").scheme


def test_rerun_command_measures_again(compose):
    cell = compose("target_quant=nvfp4_qkv", "K=2", "tracking.experiment=x", "workload=jsonl", "workload.path='a b'")
    assert cell.rerun_command == (
        "python -m acctax target_quant=nvfp4_qkv K=2 workload=jsonl 'workload.path='\"'\"'a b'\"'\"'' "
        "tracking.reuse=false")


@pytest.mark.parametrize("overrides, message", [
    (["K=-1"], "K=-1: must be 0 (plain decoding) or above"),
    (["K=1.5"], "K=1.5: must be an integer"),
    (["K=two"], "K=two: must be an integer"),
    (["K=true"], "K=True: must be an integer"),
    (["draft_source=none", "K=2"], "K=2: must be 0 with draft_source=none"),
    (["seed=-1"], "seed=-1: must lie in"),
    (["decoding=sample", "decoding.temperature=-0.5"], "decoding.temperature=-0.5: must be 0"),
    (["decoding=sample", "decoding.temperature=nan"], "decoding.temperature=nan: must be 0"),
    (["decoding=sample", "decoding.temperature=inf"], "decoding.temperature=inf: must be 0"),
    (["decoding.top_p=0.9"], "decoding.top_p=0.9: must be 1 at temperature 0"),
    (["decoding.top_k=5"], "decoding.top_k=5: must be 0 at temperature 0"),
    (["decoding.top_p=0"], "decoding.top_p=0.0: must lie in (0, 1]"),
    (["decoding.top_p=1.5"], "decoding.top_p=1.5: must lie in (0, 1]"),
    (["decoding.top_k=-1"], "decoding.top_k=-1: must be 0 (off) or above"),
    (["draft_source=ngram", "draft_source.min_n=4"], "draft_source.min_n=4: must be at most draft_source.max_n (3)"),
    (["draft_source=ngram", "draft_source.match=first"], "draft_source.match=first: must be one of earliest, latest"),
    (["draft_source=draft_model"], "draft_source.path=???: must be given"),
    (["target=hf"], "target.path=???: must be given"),
    (["workload=jsonl"], "workload.path=???: must be given"),
    (["device=cuda"], "device=cuda: must be cpu or auto: this machine or its torch has no GPU"),
    (["device.name=tpu"], "device.name=tpu: must be one of cpu, cuda, auto"),
    (["device.threads=0"], "device.threads=0: must lie in 1 to"),
    (["device.kernels=fast"], "device.kernels=fast: must be one of native, reference"),
    (["target=random_llama", "target.heads=3"], "target.hidden=64: must be an even multiple of target.heads (3)"),
    (["target=random_llama", "target.kv_heads=3"], "target.kv_heads=3: must divide target.heads (4)"),
    (["target.chat=maybe"], "target.chat=maybe: must be true or false"),
    (["draft_source=synthetic", "draft_source.acceptance=[0.8,0.7]"], "K=3: must be at most 2: draft_source=synthetic"),
    (["draft_source=synthetic", "draft_source.acceptance=[0.8,1.7]"], "draft_source.acceptance[1]=1.7: must lie in"),
    (["draft_source=synthetic", "draft_source.acceptance=[]"], "draft_source.acceptance=[]: must hold a number for"),
    (["draft_source=synthetic", "draft_source.acceptance=0.8"], "draft_source.acceptance=0.8: must be a list"),
    (["draft_source=synthetic", "draft_source.replay=/nowhere"], "draft_source.replay=/nowhere: must be the record"),
    (["draft_source=synthetic", "draft_source.like={kind: none}"], "draft_source.like.kind=none: must be a source"),
    (["draft_source=synthetic", "draft_source.like={kind: slef}"], "draft_source.like.kind=slef: must be one of"),
    (["draft_source=synthetic", "drafter_quant=int8"], "drafter_quant=int8: must be none: draft_source=synthetic"),
    (["measure=auto", "measure.budget.prompts=2"], "measure.budget.prompts=2: must be at least measure.prompts (15)"),
    (["measure=auto", "measure.rounds=99"], "measure.budget.rounds=24: must be at least measure.rounds (99)"),
    (["measure=auto", "measure.budget.seconds=0"], "measure.budget.seconds=0.0: must be above 0"),
    (["measure.levers=perhaps"], "measure.levers=perhaps: must be true or false"),
    (["measure.rounds=0"], "measure.rounds=0: must be at least 1"),
    (["verdict.tax_threshold=0"], "verdict.tax_threshold=0.0: must lie in (0, 1], a share of the byte win"),
    (["verdict.tax_threshold=30"], "verdict.tax_threshold=30.0: must lie in (0, 1], a share of the byte win"),
    (["target_quant.rules=[{pattern: x}]"], "target_quant.rules[0].format=None: must be given"),
    (["+decoding.temprature=1"], "decoding.temprature=1: no such field, did you mean temperature?"),
    (["~target"], "target=None: must be given"),
])
def test_a_choice_that_cannot_run_is_named(compose, overrides, message):
    with pytest.raises(ConfigError) as caught:
        compose(*overrides)
    assert str(caught.value).startswith(message) and "\n" not in str(caught.value)
