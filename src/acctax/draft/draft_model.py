"""A second, smaller model as the drafter."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from acctax.config import AS_LOADED, HubTarget
from acctax.draft.choice import Choice, Setting
from acctax.draft.decoder_source import DecoderSource
from acctax.errors import ConfigError
from acctax.models.checkpoint import Checkpoint, open_checkpoint
from acctax.models.decoder import Decoder
from acctax.quant import recipes


@dataclass(frozen=True)
class ModelDraft(Choice):
    path: str  # a local folder or a hub id
    kind: Literal["draft_model"] = "draft_model"
    takes_recipe: ClassVar[bool] = True

    @property
    def label(self) -> str:
        return f"draft_model:{self.path}"

    def check(self, setting: Setting) -> None:
        drafter, target = self._checkpoint(), setting.target
        if drafter.tokenizer.get_vocab() != target.tokenizer.get_vocab():
            raise ConfigError("draft_source.path", self.path, f"must have the vocabulary of the target {target.name}")
        if drafter.config.context < setting.capacity:
            raise ConfigError(
                "draft_source.path", self.path,
                f"must have a context of {setting.capacity} tokens or more, not {drafter.config.context}",
            )  # fmt: skip
        recipes.assign(setting.drafter_quant or AS_LOADED, drafter.config.linears())

    def build(self, setting: Setting) -> DecoderSource:
        recipe = setting.drafter_quant or AS_LOADED
        decoder = Decoder.load(self._checkpoint(), recipe, setting.capacity, device=setting.device)
        return DecoderSource(decoder, setting.target.config.vocab)

    def _checkpoint(self) -> Checkpoint:
        try:
            checkpoint = open_checkpoint(HubTarget("drafter", self.path))
            checkpoint.check_files()
            return checkpoint
        except ConfigError as error:
            raise ConfigError(error.field.replace("target", "draft_source", 1), error.value, error.allowed) from error
