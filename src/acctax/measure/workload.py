"""Prompts from a JSONL file, an object a line: {"id": …, "category": …, "turns": [the user's words, …]}."""

import json
from dataclasses import dataclass
from pathlib import Path

from acctax.errors import ConfigError
from acctax.models.tokenizer import Tokenizer


@dataclass(frozen=True)
class Prompt:
    id: str
    category: str
    turns: tuple[str, ...]  # what the user says, turn by turn


def load(path: Path, limit: int | None = None) -> list[Prompt]:
    """The first `limit` prompts of a file.

    Every line is checked; blank ones are skipped, other keys ignored. A line without an id is called after
    its number. Raises ConfigError, with the line, for what is no prompt.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except OSError as error:
        allowed = f"must be a file that can be read ({error.strerror})"
        raise ConfigError("workload.path", path, allowed) from None
    except UnicodeDecodeError as error:
        raise ConfigError("workload.path", path, f"must be UTF-8 text ({error.reason})") from None

    prompts: dict[str, Prompt] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        where = f"{path} line {number}"
        prompt = _parse(line, number, where)
        if prompt.id in prompts:
            raise ConfigError("workload.path", where, f"the id {prompt.id} occurs twice")
        prompts[prompt.id] = prompt
    if not prompts:
        raise ConfigError("workload.path", path, "must hold at least one prompt")
    return list(prompts.values())[:limit]


def _parse(line: str, number: int, where: str) -> Prompt:
    try:
        fields = json.loads(line)
    except json.JSONDecodeError as error:
        allowed = f"must be JSON ({error.msg} at column {error.colno})"
        raise ConfigError("workload.path", where, allowed) from None
    turns = fields.get("turns") if isinstance(fields, dict) else None
    if not isinstance(turns, list) or not turns or not all(isinstance(t, str) and t.strip() for t in turns):
        raise ConfigError("workload.path", where, 'must hold "turns", a list of one or more texts')
    return Prompt(
        id=str(fields.get("id", f"line_{number}")),
        category=str(fields.get("category", "uncategorised")),
        turns=tuple(turns),
    )


def render(prompt: Prompt, tokenizer: Tokenizer) -> list[int]:
    """Token ids of the first turn: a chat awaiting its answer, or plain text where there is no template."""
    turn = prompt.turns[0]
    if tokenizer.chat_template is None:
        return tokenizer.encode(turn)
    chat = [{"role": "user", "content": turn}]
    # the template writes the special tokens itself: none is added a second time
    return tokenizer.apply_chat_template(chat, add_generation_prompt=True, tokenize=True, return_dict=False)
