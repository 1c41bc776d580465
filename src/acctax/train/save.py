"""A trained head in the layout of the library speculators: config.json and model.safetensors in bf16.

Not stored, since every reader takes them from the target: the token embedding, and the rows of lm_head, which are the
target's own and were not trained.
"""

import json
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import CONFIG_MAPPING

from acctax.models.checkpoint import Checkpoint
from acctax.train.corpus import captured_layers
from acctax.train.heads import BlockConfig, EagleHead, Head
from acctax.train.vocabulary import DraftVocabulary

SPECULATORS = "0.9.0"  # the version whose layout this is
BLOCK = "qwen3"  # transformers' model_type of the block: llama's, with norms on q and k
ACTIVATIONS = {"silu": "silu", "gelu_tanh": "gelu_pytorch_tanh"}


def save_head(folder: Path, head: Head, vocabulary: DraftVocabulary, target: Checkpoint, verifier: str | None,
              drafts: int) -> None:
    """verifier: where other engines find the target."""
    config, target_layers = head.config, len(target.config.layers)
    tensors = {name: parameter.detach().bfloat16().contiguous() for name, parameter in head.named_parameters()}
    if vocabulary.size < config.vocab:
        marked = torch.zeros(config.vocab, dtype=torch.bool)
        marked[vocabulary.ids] = True
        tensors |= {"d2t": vocabulary.ids - torch.arange(vocabulary.size), "t2d": marked}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    eagle = isinstance(head, EagleHead)
    layers = 1 if eagle else target_layers  # an MTP head's transformer is its target's, whose last state it takes
    own = {
        "architectures": ["Eagle3DraftModel" if eagle else "MTPDraftModel"],
        "speculators_model_type": "eagle3" if eagle else "mtp",
        "speculators_version": SPECULATORS,
        "dtype": "bfloat16",
        "transformer_layer_config": _transformer(config, layers),
        "speculators_config": _proposal("eagle3" if eagle else "mtp", target, verifier, drafts),
    }
    if eagle:
        own |= {
            "draft_vocab_size": vocabulary.size,
            "eagle_aux_hidden_state_layer_ids": list(captured_layers(target_layers)),
            "target_hidden_size": config.hidden, "embed_requires_grad": False,
            "norm_before_residual": False, "norm_before_fc": False, "fc_norm": True, "norm_output": True,
        }  # fmt: skip
    else:
        own |= {"num_nextn_predict_layers": 1, "verifier_hidden_state": "post_norm"}
    (folder / "config.json").write_text(json.dumps(own, indent=2) + "\n")


def _transformer(config: BlockConfig, layers: int) -> dict:
    values = {
        "vocab_size": config.vocab, "hidden_size": config.hidden, "intermediate_size": config.intermediate,
        "num_hidden_layers": layers, "num_attention_heads": config.heads, "num_key_value_heads": config.kv_heads,
        "head_dim": config.head_dim, "hidden_act": ACTIVATIONS[config.activation], "rms_norm_eps": config.eps,
        "max_position_embeddings": config.context, "attention_bias": False, "tie_word_embeddings": False,
    }  # fmt: skip
    written = CONFIG_MAPPING[BLOCK](
        **values, rope_parameters={"rope_type": "default", "rope_theta": config.rope_theta}).to_dict()
    kept = [*values, "rope_parameters", "model_type"]
    return {name: written[name] for name in kept}


def _proposal(algorithm: str, target: Checkpoint, verifier: str | None, drafts: int) -> dict:
    said = {} if target.folder is None else json.loads((target.folder / "config.json").read_text())
    return {
        "algorithm": algorithm,
        "default_proposal_method": "greedy",
        "proposal_methods": [
            {"proposal_type": "greedy", "speculative_tokens": drafts, "verifier_accept_k": 1, "accept_tolerance": 0.0},
        ],
        "verifier": {"name_or_path": verifier, "architectures": said.get("architectures") or []},
    }
