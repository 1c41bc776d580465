"""Self-drafting: the target's own checkpoint in the cheaper formats of a recipe. It needs no training."""

from acctax.config import SelfDraft
from acctax.draft.decoder_source import DecoderSource
from acctax.draft.registry import register
from acctax.draft.setting import Setting
from acctax.models.decoder import Decoder
from acctax.quant import recipes


@register("self")
class SelfSource(DecoderSource):
    """`drafter_quant` replaces the source's recipe; the reference keeps the source's."""

    @classmethod
    def build(cls, choice: SelfDraft, setting: Setting) -> "SelfSource":
        recipe = setting.drafter_quant or recipes.load(choice.recipe)
        decoder = Decoder.load(setting.target, recipe, setting.capacity)
        return cls(decoder, setting.target.config.vocab, setting.draw)

    @classmethod
    def check(cls, choice: SelfDraft, setting: Setting) -> None:
        recipes.assign(setting.drafter_quant or recipes.load(choice.recipe), setting.target.config.linears())
