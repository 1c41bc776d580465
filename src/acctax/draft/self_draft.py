"""Self-drafting: the target's own checkpoint in the cheaper formats of a recipe. It needs no training."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from acctax.config import Recipe
from acctax.draft.choice import Choice, Setting
from acctax.draft.decoder_source import DecoderSource
from acctax.models.decoder import Decoder
from acctax.paths import conf_dir
from acctax.quant import recipes


@dataclass(frozen=True)
class SelfDraft(Choice):
    """`drafter_quant` replaces the source's recipe in the candidate; the reference keeps the source's."""

    recipe: str = "int8_all"
    kind: Literal["self"] = "self"
    takes_recipe: ClassVar[bool] = True
    brings_recipe: ClassVar[bool] = True

    @property
    def label(self) -> str:
        return f"self:{self.recipe}"

    @property
    def fingerprint(self) -> tuple[str, ...]:
        file = conf_dir() / "target_quant" / f"{self.recipe}.yaml"
        return (file.read_text(encoding="utf-8"),) if file.is_file() else ()

    def check(self, setting: Setting) -> None:
        recipes.assign(self._recipe(setting), setting.target.config.linears())

    def build(self, setting: Setting) -> DecoderSource:
        decoder = Decoder.load(setting.target, self._recipe(setting), setting.capacity, device=setting.device)
        return DecoderSource(decoder, setting.target.config.vocab)

    def _recipe(self, setting: Setting) -> Recipe:
        return setting.drafter_quant or recipes.load(self.recipe, "draft_source.recipe")
