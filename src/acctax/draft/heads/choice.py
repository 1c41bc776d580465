"""A head as an option of conf/draft_source."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from acctax.config import AS_LOADED
from acctax.draft.choice import Choice, Setting
from acctax.draft.heads.checkpoint import HeadCheckpoint, open_head
from acctax.draft.heads.files import fingerprint
from acctax.draft.heads.head import Head
from acctax.draft.heads.source import HeadSource
from acctax.errors import ConfigError
from acctax.models.checkpoint import Checkpoint, local_folder
from acctax.paths import heads_dir
from acctax.quant import recipes


@dataclass(frozen=True)
class HeadDraft(Choice):
    path: str | None = None  # a local folder or a hub id; None: the head that is shipped for the target
    takes_recipe: ClassVar[bool] = True

    @property
    def label(self) -> str:
        return f"{self.kind}:{self.path}" if self.path else self.kind

    @property
    def fingerprint(self) -> tuple[str, ...]:
        folder = Path(self.path or "").expanduser()
        return fingerprint(folder) if self.path and folder.is_dir() else ()

    def check(self, setting: Setting) -> None:
        head = self._open(setting.target)
        limit = head.config.block.context
        head.files.require(limit >= setting.capacity, "max_position_embeddings", limit,
                           f"must reach the longest text, {setting.capacity} tokens")  # fmt: skip
        recipes.assign(setting.drafter_quant or AS_LOADED, head.config.linears())

    def build(self, setting: Setting) -> HeadSource:
        recipe = setting.drafter_quant or AS_LOADED
        head = Head.load(self._open(setting.target), recipe, setting.capacity, device=setting.device)
        return HeadSource(head, setting.target.config.vocab)

    def _open(self, target: Checkpoint) -> HeadCheckpoint:
        folder = local_folder(self.path, "draft_source.path") if self.path else self._shipped(target)
        return open_head(folder, self.kind, target)

    def _shipped(self, target: Checkpoint) -> Path:
        folders = [file.parent for file in heads_dir().glob(f"*/{self.kind}/config.json")]
        shipped = {folder.parent.name: folder for folder in folders}
        if target.name not in shipped:
            targets = ", ".join(sorted(shipped)) or "no target"
            wanted = f"must be given for {target.name}: the {self.kind} heads shipped are of {targets}"
            raise ConfigError("draft_source.path", None, wanted)
        return shipped[target.name]
