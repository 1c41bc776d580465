import pytest

from acctax import quant
from acctax.config import Recipe, Rule
from acctax.errors import ConfigError
from acctax.paths import conf_dir
from acctax.quant import recipes

ATTENTION = {"q_proj": (576, 576), "k_proj": (192, 576), "v_proj": (192, 576), "o_proj": (576, 576)}
MLP = {"gate_proj": (1536, 576), "up_proj": (1536, 576), "down_proj": (576, 1536)}
SMOLLM2 = {  # SmolLM2-135M
    **{f"model.layers.{i}.self_attn.{name}": shape for i in range(30) for name, shape in ATTENTION.items()},
    **{f"model.layers.{i}.mlp.{name}": shape for i in range(30) for name, shape in MLP.items()},
    "lm_head": (49152, 576),
}
SHIPPED = sorted(file.stem for file in (conf_dir() / "target_quant").glob("*.yaml"))


def assigned(name):
    """Module -> format of what the recipe changes."""
    chosen = recipes.assign(recipes.load(name), SMOLLM2)
    assert list(chosen) == list(SMOLLM2)
    return {module: rule.format for module, rule in chosen.items() if rule}


def share(modules):
    weights = {module: shape[0] * shape[1] for module, shape in SMOLLM2.items()}
    return sum(weights[module] for module in modules) / sum(weights.values())


def test_what_is_shipped():
    assert SHIPPED == sorted(
        ["bf16", "fp8", "int8", "int4", "nvfp4", "mxfp4", "nf4", "int8_all"]
        + ["nvfp4_all", "nvfp4_qkv", "nvfp4_o", "nvfp4_mlp", "nvfp4_lm_head", "nvfp4_a8", "nvfp4_a8_all"]
    )


@pytest.mark.parametrize("name", SHIPPED)
def test_every_shipped_recipe_fits_smollm2_and_is_called_as_its_file(name):
    assert recipes.load(name).name == name
    named = name.removesuffix("_all") if "_a8" in name else name.split("_")[0]
    assert set(assigned(name).values()) <= {named}


def test_bf16_leaves_everything_as_loaded():
    assert assigned("bf16") == {}


@pytest.mark.parametrize("format", ["fp8", "int8", "int4", "nvfp4", "mxfp4", "nf4"])
def test_the_body_is_every_projection_of_every_layer(format):
    assert assigned(format) == dict.fromkeys([module for module in SMOLLM2 if module != "lm_head"], format)


@pytest.mark.parametrize("format", ["int8", "nvfp4"])
def test_all_is_body_and_lm_head(format):
    assert assigned(f"{format}_all") == dict.fromkeys(SMOLLM2, format)


@pytest.mark.parametrize(
    ("name", "modules", "weight_share"),
    [
        ("nvfp4_qkv", 90, 0.123),
        ("nvfp4_o", 30, 0.074),
        ("nvfp4_mlp", 90, 0.592),
        ("nvfp4_lm_head", 1, 0.210),
        ("nvfp4", 210, 0.789),
        ("nvfp4_all", 211, 1.0),
    ],
)
def test_components_hold_their_share_of_the_weights(name, modules, weight_share):
    assert len(assigned(name)) == modules
    assert share(assigned(name)) == pytest.approx(weight_share, abs=0.001)


def test_the_first_rule_that_matches_wins():
    rules = Rule("*.3.*_proj", "int8"), Rule("*.mlp.*", "int4", 32), Rule("lm_head", "fp8")
    recipe = Recipe("mixed", rules)
    chosen = recipes.assign(recipe, SMOLLM2)
    assert chosen["model.layers.3.mlp.up_proj"] is rules[0]
    assert chosen["model.layers.13.mlp.up_proj"] is rules[1]
    assert chosen["lm_head"] is rules[2]
    assert chosen["model.layers.13.self_attn.q_proj"] is None


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ([Rule("*.self_attn.w_q", "int8")], r"pattern=\*\.self_attn\.w_q: .*model\.layers\.\*\.mlp"),
        ([Rule("*", "int8"), Rule("lm_head", "nvfp4")], "pattern=lm_head: must match a module that no earlier rule"),
        ([Rule("lm_head", "int3")], "format=int3: must be one of bf16, fp32"),
        ([Rule("lm_head", "int4", 128)], "group=128: must be one of 64, 32, 16 for int4, lm_head, width 576"),
        ([Rule("*.q_proj", "int4", 96)], r"group=96: .* model\.layers\.0\.self_attn\.q_proj"),
        ([Rule("lm_head", "nvfp4", 32)], "group=32: must be one of 16"),
    ],
)
def test_a_recipe_that_does_not_fit_is_refused_in_one_line(rules, message):
    with pytest.raises(ConfigError, match=message) as refusal:
        recipes.assign(Recipe("bad", tuple(rules)), SMOLLM2)
    assert "\n" not in str(refusal.value)


def test_an_unknown_recipe_lists_the_shipped_ones():
    with pytest.raises(ConfigError, match="recipe=nvfp5: must be one of bf16, fp8, int4, int8, int8_all"):
        recipes.load("nvfp5")


def test_a_recipe_file_with_a_misspelt_key_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(recipes, "conf_dir", lambda: tmp_path)
    (tmp_path / "target_quant").mkdir()
    (tmp_path / "target_quant" / "odd.yaml").write_text("name: odd\nrules: [{patern: '*', format: int8}]\n")
    with pytest.raises(ConfigError, match="patern"):
        recipes.load("odd")


def test_every_shipped_format_is_registered():
    assert {"fp32", "bf16", "fp8", "int8", "int4", "nvfp4", "mxfp4", "nf4"} <= set(quant.names())
