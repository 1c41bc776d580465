"""A second, smaller model as the drafter."""

from acctax.config import HubTarget, ModelDraft, Recipe
from acctax.draft.decoder_source import DecoderSource
from acctax.draft.registry import register
from acctax.draft.setting import Setting
from acctax.errors import ConfigError
from acctax.models.checkpoint import Checkpoint, open_checkpoint
from acctax.models.decoder import Decoder
from acctax.quant import recipes

AS_LOADED = Recipe("bf16")


@register("draft_model")
class ModelSource(DecoderSource):
    @classmethod
    def build(cls, choice: ModelDraft, setting: Setting) -> "ModelSource":
        decoder = Decoder.load(_checkpoint(choice), setting.drafter_quant or AS_LOADED, setting.capacity)
        return cls(decoder, setting.target.config.vocab, setting.draw)

    @classmethod
    def check(cls, choice: ModelDraft, setting: Setting) -> None:
        drafter, target = _checkpoint(choice), setting.target
        if drafter.tokenizer.get_vocab() != target.tokenizer.get_vocab():
            raise ConfigError("draft_source.path", choice.path, f"must have the vocabulary of the target {target.name}")
        if drafter.config.context < setting.capacity:
            raise ConfigError(
                "draft_source.path", choice.path,
                f"must have a context of {setting.capacity} tokens or more, not {drafter.config.context}",
            )  # fmt: skip
        recipes.assign(setting.drafter_quant or AS_LOADED, drafter.config.linears())


def _checkpoint(choice: ModelDraft) -> Checkpoint:
    try:
        return open_checkpoint(HubTarget("drafter", choice.path))
    except ConfigError as error:
        raise ConfigError(error.field.replace("target", "draft_source", 1), error.value, error.allowed) from error
