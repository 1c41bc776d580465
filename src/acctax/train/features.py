"""Conversations and the target's hidden states on disk: files that only grow, so that a killed run loses nothing whole.

A shard is `<name>.bin`, rows of bf16 one conversation after another, and `<name>.jsonl`, a line each, written after its
rows. Rows are read through a memory map that lives as long as the reading takes.
"""

import fcntl
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

BYTES = 2  # of a bf16 value


@dataclass(frozen=True)
class Conversation:
    """A text of m tokens; row t of its features is the target's state after token t.

    best[t] and lse[t]: arg-max and log-sum-exp of the target's logits there, which are about token t + 1.
    """

    number: int
    temperature: float
    prompt_tokens: int
    tokens: list[int]
    best: list[int]
    lse: list[float]

    @property
    def answer_tokens(self) -> int:
        return len(self.tokens) - self.prompt_tokens


@dataclass(frozen=True)
class Stored:
    conversation: Conversation
    shard: Path
    first_row: int


class ShardWriter:
    """Appends to a shard, from where its last whole conversation ended."""

    def __init__(self, folder: Path, name: str, width: int):
        index, rows = folder / f"{name}.jsonl", folder / f"{name}.bin"
        self._index, self._rows = open(index, "a", encoding="utf-8"), open(rows, "ab")
        fcntl.flock(self._index, fcntl.LOCK_EX)  # a killed run's process may live for a moment more
        stored = read_shard(index)
        self.rows, self.answer_tokens = sum(len(s.conversation.tokens) for s in stored), tokens_of(stored)
        os.truncate(index, sum(len(_line(s.conversation)) for s in stored))
        os.truncate(rows, self.rows * width * BYTES)

    def append(self, conversation: Conversation, features: Tensor) -> None:
        """features [m, width]"""
        self._rows.write(features.to(torch.bfloat16).contiguous().view(torch.int16).numpy().data)
        self._rows.flush()
        self._index.write(_line(conversation))
        self._index.flush()
        self.rows += len(conversation.tokens)
        self.answer_tokens += conversation.answer_tokens

    def close(self) -> None:
        self._rows.close()
        self._index.close()


def read_shard(index: Path) -> list[Stored]:
    """The whole conversations of a shard, in the order they were written."""
    stored, row = [], 0
    lines = index.read_text(encoding="utf-8").split("\n") if index.is_file() else [""]
    for line in lines[:-1]:  # what follows the last line's end was being written when its writer died
        conversation = Conversation(**json.loads(line))
        stored.append(Stored(conversation, index.with_suffix(".bin"), row))
        row += len(conversation.tokens)
    return stored


def read_features(stored: Stored, width: int, columns: slice) -> Tensor:
    """[m, columns] of a conversation's rows."""
    shape = (len(stored.conversation.tokens), width)
    rows = np.memmap(stored.shard, np.int16, "r", stored.first_row * width * BYTES, shape)
    return torch.from_numpy(np.array(rows[:, columns])).view(torch.bfloat16)


def read_shards(folder: Path, name: str) -> list[Stored]:
    """Of all shards called `name-*`, by number."""
    stored = [s for index in sorted(folder.glob(f"{name}-*.jsonl")) for s in read_shard(index)]
    return sorted(stored, key=lambda s: s.conversation.number)


def tokens_of(stored: Sequence[Stored]) -> int:
    return sum(s.conversation.answer_tokens for s in stored)


def _line(conversation: Conversation) -> str:
    return json.dumps(asdict(conversation), separators=(",", ":")) + "\n"
