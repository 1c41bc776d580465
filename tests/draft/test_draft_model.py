"""A draft model must speak the target's vocabulary and reach as far as its context."""

import pytest

from acctax.config import HubTarget, Recipe, Rule
from acctax.decode.rules import Greedy
from acctax.draft.choice import Setting
from acctax.draft.draft_model import ModelDraft
from acctax.errors import ConfigError
from acctax.models.checkpoint import open_checkpoint
from tests.tiny import FAMILIES, save_model, save_tokenizer


@pytest.fixture
def pair(tmp_path):
    folders = []
    for i, name in enumerate(("target", "drafter")):
        folder = tmp_path / name
        folder.mkdir()
        save_model(FAMILIES["llama"], folder, seed=i)
        folders.append(str(folder))
    return folders


def setting(folder, capacity=64, drafter_quant=None):
    return Setting(open_checkpoint(HubTarget("hf", folder)), drafter_quant, capacity)


def test_the_same_vocabulary_fits(pair):
    target, drafter = pair
    ModelDraft(drafter).check(setting(target))
    source = ModelDraft(drafter).build(setting(target))
    source.begin([3, 4, 5], 0, None)
    assert len(source.draft(4, Greedy().draw).tokens) == 4


def test_another_vocabulary_is_refused(pair):
    target, drafter = pair
    save_tokenizer(drafter, words=50)
    with pytest.raises(ConfigError, match="draft_source.path=.*must have the vocabulary of the target"):
        ModelDraft(drafter).check(setting(target))


def test_a_short_context_is_refused(pair):
    target, drafter = pair
    with pytest.raises(ConfigError, match="must have a context of 200 tokens or more, not 128"):
        ModelDraft(drafter).check(setting(target, capacity=200))


def test_a_missing_draft_model_names_its_own_field(pair):
    with pytest.raises(ConfigError, match="draft_source.path=/nowhere"):
        ModelDraft("/nowhere").check(setting(pair[0]))


def test_a_recipe_that_does_not_fit_the_drafter(pair):
    recipe = Recipe("odd", (Rule("*.nothing", "int8"),))
    with pytest.raises(ConfigError, match="must match a module"):
        ModelDraft(pair[1]).check(setting(pair[0], drafter_quant=recipe))
