"""Recipes: which module's weight is stored in which format."""

from collections.abc import Mapping
from fnmatch import fnmatchcase

from omegaconf import OmegaConf

from acctax.config import Recipe, Rule
from acctax.errors import ConfigError
from acctax.paths import conf_dir
from acctax.quant import registry
from acctax.schema import convert


def assign(recipe: Recipe, shapes: Mapping[str, tuple[int, int]]) -> dict[str, Rule | None]:
    """The first rule that matches each module, None where the weight stays as loaded.

    shapes: module name, such as "model.layers.3.self_attn.q_proj" or "lm_head" -> (N, K) of its weight.
    Raises ConfigError for an unknown format, for one that does not fit a weight, and for a rule that is left
    with no module (a misspelt pattern must not pass for a quantization that costs nothing).
    """
    chosen = {
        module: next((rule for rule in recipe.rules if fnmatchcase(module, rule.pattern)), None)
        for module in shapes
    }
    for rule in recipe.rules:
        modules = [module for module, its_rule in chosen.items() if its_rule is rule]
        if not modules:
            left = f"must match a module that no earlier rule of {recipe.name} takes: {_kinds(shapes)}"
            raise ConfigError("pattern", rule.pattern, left)
        for module in modules:
            registry.get(rule.format).check(shapes[module], rule.group, module)
    return chosen


def load(name: str, field: str = "recipe") -> Recipe:
    """The recipe in conf/target_quant/<name>.yaml. Raises ConfigError, naming `field` and the recipes there are."""
    folder = conf_dir() / "target_quant"
    file = folder / f"{name}.yaml"
    if not file.is_file():
        shipped = ", ".join(sorted(file.stem for file in folder.glob("*.yaml")))
        raise ConfigError(field, name, f"must be one of {shipped}")
    return convert(Recipe, OmegaConf.to_container(OmegaConf.load(file)), f"target_quant.{name}")


def _kinds(modules) -> str:
    """Module names without their layer numbers, each once, for a message of one line."""
    kinds = {".".join("*" if part.isdigit() else part for part in module.split(".")) for module in modules}
    return ", ".join(sorted(kinds))
