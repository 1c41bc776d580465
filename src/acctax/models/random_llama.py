"""A Llama of random weights and any size, for tests and for timing."""

import os
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor
from transformers import LlamaConfig

from acctax.config import RandomLlamaTarget
from acctax.models.config import DecoderConfig, read_config


def config(target: RandomLlamaTarget) -> DecoderConfig:
    hf = LlamaConfig(
        hidden_size=target.hidden,
        intermediate_size=target.intermediate,
        num_hidden_layers=target.layers,
        num_attention_heads=target.heads,
        num_key_value_heads=target.kv_heads,
        vocab_size=target.vocab,
        max_position_embeddings=target.context,
        tie_word_embeddings=target.tie,
        bos_token_id=None,
        eos_token_id=None,
    )
    return read_config(hf, "target")


def tensors(config: DecoderConfig, seed: int) -> dict[str, Tensor]:
    """Gaussian matrices that keep the scale of their input, in bf16; norms of one.

    Embeddings are as small as a row of a matrix: the layers, not the last token, then decide what comes next.
    Each matrix has a generator of its own, so that they are drawn side by side: a core draws billions in a minute.
    """
    shapes = {"model.embed_tokens.weight": (config.vocab, config.hidden)}
    shapes |= {f"{name}.weight": shape for name, shape in config.linears().items()}
    if config.tied:
        del shapes["lm_head.weight"]

    def matrix(number: int, shape: tuple[int, int]) -> Tensor:
        generator = torch.Generator().manual_seed(seed * len(shapes) + number)
        return torch.randn(shape, generator=generator).mul_(shape[1] ** -0.5).bfloat16()

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # those of the pool, which would each bring a team of their own to what is not drawing
    try:
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            drawn = dict(zip(shapes, pool.map(matrix, range(len(shapes)), shapes.values())))
    finally:
        torch.set_num_threads(threads)
    for i in range(len(config.layers)):
        for norm in ("input_layernorm", "post_attention_layernorm"):
            drawn[f"model.layers.{i}.{norm}.weight"] = torch.ones(config.hidden)
    drawn["model.norm.weight"] = torch.ones(config.hidden)
    return drawn
