"""Tiny random checkpoints in transformers' own layout, one per family, for tests."""

from pathlib import Path

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    AutoModelForCausalLM,
    Gemma3TextConfig,
    LlamaConfig,
    MistralConfig,
    PreTrainedConfig,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen3Config,
)

VOCAB = 97
SIZE = dict(
    vocab_size=VOCAB, hidden_size=64, intermediate_size=96, num_hidden_layers=3, num_attention_heads=4,
    num_key_value_heads=2, max_position_embeddings=128, bos_token_id=1, eos_token_id=2, pad_token_id=0,
)  # fmt: skip
LLAMA3_ROPE = {
    "rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}  # fmt: skip
FAMILIES = {
    "llama": LlamaConfig(**SIZE, tie_word_embeddings=True),
    "llama_biases": LlamaConfig(**SIZE, tie_word_embeddings=False, attention_bias=True, mlp_bias=True),
    "llama3_rope": LlamaConfig(**SIZE, tie_word_embeddings=False, rope_parameters=LLAMA3_ROPE),
    "mistral": MistralConfig(**SIZE, sliding_window=7, head_dim=32),
    "qwen2": Qwen2Config(**SIZE, tie_word_embeddings=True),
    "qwen2_windows": Qwen2Config(**SIZE, use_sliding_window=True, sliding_window=7, max_window_layers=1),
    "qwen3": Qwen3Config(**SIZE, head_dim=32, tie_word_embeddings=False),
    "gemma3": Gemma3TextConfig(**SIZE, head_dim=32, sliding_window=7, query_pre_attn_scalar=24,
                               layer_types=["sliding_attention", "full_attention", "sliding_attention"]),
}  # fmt: skip


def save_tokenizer(folder: Path, words: int = VOCAB) -> None:
    vocab = {"<pad>": 0, "<s>": 1, "</s>": 2} | {f"w{i}": i for i in range(3, words)}
    tokenizer = Tokenizer(models.WordLevel(vocab, unk_token="<pad>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", bos_token="<s>", eos_token="</s>"
    ).save_pretrained(folder)


def save_model(config: PreTrainedConfig, folder: Path, seed: int = 0):
    """A checkpoint whose norms and biases are random too; returns transformers' model, in float32."""
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("norm.weight"):
                parameter.add_(0.1 * torch.randn_like(parameter))
            elif name.endswith("bias"):
                parameter.copy_(0.1 * torch.randn_like(parameter))
            else:
                parameter.mul_(5.0)  # logits of some size
    model.save_pretrained(folder)
    save_tokenizer(folder)
    return model
