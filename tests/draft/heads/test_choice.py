"""draft_source=mtp, eagle, and n-grams that fall back on them: chosen, checked and measured by configuration alone."""

import huggingface_hub
import pytest

from acctax import paths
from acctax.draft.heads import choice
from acctax.errors import ConfigError
from acctax.measure.job import measure, preflight
from acctax.progress import Progress
from tests.draft.heads import published
from tests.draft.heads.published import TARGET
from tests.tiny import save_model

QUICK = ["measure.prompts=3", "measure.max_new_tokens=10", "measure.rounds=2", "measure.cycles=2", "K=3"]


@pytest.fixture
def folders(tmp_path):
    """A target and a head of each kind beside it."""
    (tmp_path / "target").mkdir()
    save_model(TARGET, tmp_path / "target")
    published.eagle3_speculators().save(tmp_path / "eagle")
    published.mtp_speculators().save(tmp_path / "mtp")
    prompts = "\n".join(f'{{"turns": ["w{i} w{i + 1} w{i} w9 w{i}"]}}' for i in range(5, 8))
    (tmp_path / "prompts.jsonl").write_text(prompts)
    return tmp_path


@pytest.fixture
def cell(compose, folders):
    def make(*overrides):
        return compose("target=hf", f"target.path={folders}/target", "workload=jsonl",
                       f"workload.path={folders}/prompts.jsonl", *QUICK, *overrides)  # fmt: skip

    return make


@pytest.mark.parametrize("kind", ["mtp", "eagle"])
def test_a_head_is_measured_against_its_reference(cell, folders, kind):
    chosen = cell(f"draft_source={kind}", f"draft_source.path={folders}/{kind}", "drafter_quant=nvfp4_all",
                  "target_quant=nvfp4")  # fmt: skip
    preflight(chosen)
    record = measure(chosen, Progress.silent())
    assert record.choices["draft_source"] == f"{kind}:{folders}/{kind}"
    drafter = record.candidate.bytes_cycle["drafter"], record.reference.bytes_cycle["drafter"]
    assert 0 < drafter[0] < drafter[1]
    assert all(drafted == 3 for prompt in record.candidate.prompts for drafted in prompt.drafted)


@pytest.mark.parametrize("kind", ["mtp", "eagle"])
def test_the_ngrams_fall_back_on_a_head(cell, folders, kind):
    fallback = [f"draft_source.fallback={kind}", f"draft_source.path={folders}/{kind}"]
    chosen = cell("draft_source=ngram", *fallback, "drafter_quant=int8")
    preflight(chosen)
    record = measure(chosen, Progress.silent())
    assert record.choices["draft_source"] == f"ngram:2-3:earliest+{kind}:{folders}/{kind}"
    assert not chosen.is_reference and record.candidate.bytes_cycle["drafter"] > 0
    alone = measure(cell("draft_source=ngram"), Progress.silent())
    texts = [[prompt.tokens for prompt in its.reference.prompts] for its in (record, alone)]
    assert texts[0] == texts[1]


def test_ngrams_alone_have_no_weights(cell):
    with pytest.raises(ConfigError, match="drafter_quant=int8: must be none: draft_source=ngram has no weights"):
        cell("draft_source=ngram", "drafter_quant=int8")


@pytest.mark.parametrize(
    "overrides, message",
    [
        (["draft_source=mtp", "draft_source.path=/nowhere"], "draft_source.path=/nowhere: must be a local folder"),
        (["draft_source=mtp", "draft_source.path={}/target"], "must be a head of a known layout"),
        (["draft_source=mtp", "draft_source.path={}/eagle"], "is one of draft_source=eagle, not mtp"),
        (["draft_source=eagle"], "draft_source.path=None: must be given for .*: the eagle heads shipped are of"),
        (["draft_source=ngram", "draft_source.fallback=mtp", "draft_source.path={}/eagle"], "not mtp"),
        (["draft_source=mtp", "draft_source.path={}/mtp", "drafter_quant.rules=[{{pattern: fc, format: int8}}]"],
         "pattern=fc: must match a module"),
        (["draft_source=mtp", "draft_source.path={}/mtp", "drafter_quant=mxfp4",
          "drafter_quant.rules=[{{pattern: '*.q_proj', format: int4, group: 48}}]"], "group=48"),
    ],
)  # fmt: skip
def test_what_cannot_run_is_found_before_anything_is_packed(cell, folders, overrides, message):
    with pytest.raises(ConfigError, match=message) as error:
        preflight(cell("drafter_quant=int8", *(override.format(folders) for override in overrides)))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "overrides, message",
    [
        (["draft_source=ngram", "draft_source.path=x"], "draft_source.path=x: must be null without draft_source.fall"),
        (["draft_source=ngram", "draft_source.fallback=self"], "draft_source.fallback=self: must be one of mtp, eagle"),
        (["draft_source=mtp", "+draft_source.paht=x"], "draft_source.paht=x: no such field, did you mean path?"),
        (["draft_source=mtp", "draft_source.path=3.5"], None),
    ],
)  # fmt: skip
def test_a_choice_that_is_none(compose, overrides, message):
    if message is None:
        assert compose(*overrides).draft_source.path == "3.5"  # a name that YAML reads as a number
    else:
        with pytest.raises(ConfigError) as error:
            compose(*overrides)
        assert str(error.value).startswith(message)


def test_a_text_longer_than_the_heads_positions(cell, folders):
    head = published.mtp_speculators()
    head.config["transformer_layer_config"]["max_position_embeddings"] = 12
    head.save(folders / "short")
    with pytest.raises(ConfigError, match="max_position_embeddings=12: must reach the longest text, 19 tokens"):
        preflight(cell("draft_source=mtp", f"draft_source.path={folders}/short"))


def test_without_a_path_the_shipped_head_serves(cell, folders, monkeypatch):
    monkeypatch.setattr(choice, "heads_dir", lambda: folders / "heads")
    published.mtp_speculators().save(folders / "heads/someone/mtp")
    with pytest.raises(ConfigError, match="the mtp heads shipped are of someone"):
        preflight(cell("draft_source=mtp"))
    monkeypatch.chdir(folders)
    published.mtp_speculators().save(folders / "heads/target/mtp")
    chosen = cell("draft_source=mtp", "target.path=target")
    preflight(chosen)
    assert chosen.draft_source.label == "mtp"


def test_heads_are_shipped_beside_conf():
    assert paths.heads_dir().parent == paths.conf_dir().parent


def test_a_head_that_was_trained_again_is_another_cell(cell, folders):
    for source in (["draft_source=mtp"], ["draft_source=ngram", "draft_source.fallback=mtp"]):
        chosen = [*source, f"draft_source.path={folders}/mtp"]
        published.mtp_speculators().save(folders / "mtp")
        before = cell(*chosen).cell_id
        assert cell(*chosen).cell_id == before
        published.mtp_speculators("pre_norm").save(folders / "mtp")
        assert cell(*chosen).cell_id != before


def test_a_hub_id_serves_as_a_folder_does(cell, folders, monkeypatch):
    """As the hub's client keeps a downloaded head, read without a network."""
    revision = folders / "hub/models--someone--a-head/snapshots" / ("0" * 40)
    published.mtp_speculators().save(revision)
    (revision.parents[1] / "refs").mkdir()
    (revision.parents[1] / "refs/main").write_text(revision.name)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(folders / "hub"))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    chosen = cell("draft_source=mtp", "draft_source.path=someone/a-head")
    preflight(chosen)
    local = measure(cell("draft_source=mtp", f"draft_source.path={folders}/mtp"), Progress.silent())
    records = measure(chosen, Progress.silent()), local
    texts = [[prompt.accepted for prompt in its.candidate.prompts] for its in records]
    assert texts[0] == texts[1]
    with pytest.raises(ConfigError, match="draft_source.path=someone/another: must be a local folder or a model that"):
        preflight(cell("draft_source=mtp", "draft_source.path=someone/another"))
