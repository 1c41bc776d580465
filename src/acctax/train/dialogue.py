"""What the target is given to write from: its own chat template, or prompts from a file.

Self-synthesis (Magpie, Xu et al. 2024): fed with the template up to where the user speaks, a chat model writes the
user's words itself; fed with what ends them, it answers.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from acctax.errors import ConfigError
from acctax.measure.workload import Prompt, render
from acctax.models.checkpoint import Checkpoint

MARK = "Q3mark7"  # stands for the user's words in the rendered template


@dataclass(frozen=True)
class Script:
    """opening: tokens fed first. Where the target asks, bridge: tokens between its question and its answer."""

    opening: tuple[int, ...]
    bridge: tuple[int, ...] | None = None


def template_script(checkpoint: Checkpoint) -> Script:
    """Raises ConfigError for a target without a chat template."""
    tokenizer = checkpoint.tokenizer
    if tokenizer.chat_template is None:
        allowed = f"must be a file of prompts: {checkpoint.name} has no chat template to write them from"
        raise ConfigError("data.prompts", None, allowed)
    chat = [{"role": "user", "content": MARK}]
    text = tokenizer.apply_chat_template(chat, add_generation_prompt=True, tokenize=False)
    before, mark, after = text.partition(MARK)
    if not mark or MARK in after:
        allowed = f"must be a file of prompts: the template of {checkpoint.name} does not keep the user's words"
        raise ConfigError("data.prompts", None, allowed)
    opening, bridge = (tokenizer.encode(part, add_special_tokens=False) for part in (before, after))
    return Script(tuple(opening), tuple(bridge))


def prompt_scripts(prompts: Sequence[Prompt], checkpoint: Checkpoint, longest: int) -> list[Script]:
    """Those of the prompts that are no longer than `longest` tokens."""
    scripts = [Script(tuple(render(prompt, checkpoint.tokenizer))) for prompt in prompts]
    return [script for script in scripts if 2 <= len(script.opening) <= longest]
