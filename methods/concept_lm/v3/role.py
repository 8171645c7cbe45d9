"""One frozen base for all of v3: planner, executor and recogniser have a LoRA adapter each."""

from typing import Any

from torch import nn

from ..base import add_lora
from ..config import ConceptConfig

ROLES = ("planner", "executor", "recogniser")


class Role(nn.Module):
    """A base seen through one role's adapter: what it registers, and trains, is that alone.

    Has the parts of a Qwen decoder that v3 uses; asking for the layers puts the adapter on.
    """

    def __init__(self, peft: Any, name: str, scale: float) -> None:
        super().__init__()
        self.name, self.scale = name, scale
        weights = {key: p for key, p in peft.named_parameters() if f".{name}." in key}
        self.adapter = nn.ParameterDict({key.replace(".", "/"): p for key, p in weights.items()})
        self.adapter.requires_grad_(True)
        self.shared = [peft]  # in a list: the base is no part of this role's parameters

    @property
    def causal_lm(self) -> Any:
        """The shared base with its embeddings and lm_head."""
        return self.shared[0].base_model.model

    @property
    def layers(self) -> Any:
        """The base's layers with this role's adapter on, and no other."""
        for part in self.causal_lm.modules():
            if hasattr(part, "lora_A"):
                part._active_adapter = [self.name]  # set_adapter would freeze the other roles
        return self.causal_lm.model.layers

    @property
    def norm(self) -> Any:
        """The base's last norm."""
        return self.causal_lm.model.norm

    @property
    def rotary_emb(self) -> Any:
        """The base's rotations."""
        return self.causal_lm.model.rotary_emb

    @property
    def config(self) -> Any:
        """The base's configuration."""
        return self.causal_lm.config


def adapters(base: Any, rank: int = 16, seed: int = 0) -> dict[str, Role]:
    """Every role on `base`, which is frozen, by its name."""
    config = ConceptConfig(1, 0, 1, lora_rank=rank)  # of which only LoRA's values are read
    peft = add_lora(base, config, seed=seed, names=ROLES)
    return {name: Role(peft, name, config.lora_alpha / rank) for name in ROLES}


def fit(module: nn.Module, role: Role) -> nn.Embedding:
    """Scale new embeddings to the base's, and return those.

    A Qwen's are some fifty times smaller than torch's.
    """
    words: nn.Embedding = role.causal_lm.get_input_embeddings()
    std = float(words.weight.float().std())
    for part in module.children():
        if isinstance(part, nn.Embedding) and part.weight.requires_grad:
            nn.init.normal_(part.weight, std=std)
    return words
