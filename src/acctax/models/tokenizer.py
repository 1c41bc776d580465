"""What the project asks of a tokenizer, and one for models that have none."""

from typing import Protocol


class Tokenizer(Protocol):
    """The part of a transformers tokenizer that is used here."""

    chat_template: str | None

    def encode(self, text: str) -> list[int]: ...

    def decode(self, tokens: list[int]) -> str: ...

    def get_vocab(self) -> dict[str, int]: ...

    def apply_chat_template(self, messages: list[dict], **options) -> list[int]: ...


class ByteTokenizer:
    """Bytes of UTF-8 as token ids, for models with random weights: their text means nothing anyway."""

    chat_template = None

    def __init__(self, vocab: int):
        self.vocab = vocab

    def encode(self, text: str) -> list[int]:
        return [byte % self.vocab for byte in text.encode()]

    def get_vocab(self) -> dict[str, int]:
        return {f"<{token}>": token for token in range(self.vocab)}

    def decode(self, tokens: list[int]) -> str:
        return bytes(token % 256 for token in tokens).decode(errors="replace")
