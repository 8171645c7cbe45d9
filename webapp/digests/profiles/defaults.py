"""What a new site looks for: methods that make large models cheaper to train and to run.

Beside each keyword, of 1,000 papers of June 2026 in cs.AI, cs.CL, cs.CV and cs.LG, how many hold
it. A site counts its own papers once it has enough of them.
"""

KEYWORDS = {
    "speculative decoding": 4.4,
    "KV cache | key-value cache": 8.8,
    "sparse attention | block-sparse": 2.0,
    "linear attention": 2.3,
    "FlashAttention | attention kernel": 0.9,
    "mixture of experts | MoE": 8.5,
    "quantization | quantized | quantisation": 14.3,
    "low-precision | FP8 | FP4": 1.8,
    "long context": 16.1,
    "LLM inference | LLM serving | inference engine": 4.7,
    "prefill": 3.8,
    "parallel decoding | multi-token prediction": 2.6,
    "token pruning | token merging | token compression | token reduction": 8.2,
    "knowledge distillation": 7.0,
    "GPU kernel | CUDA kernel | Triton kernel | kernel fusion": 1.2,
    "tensor parallelism | pipeline parallelism | expert parallelism": 0.6,
    "distributed training | large-scale training": 2.6,
    "inference throughput | decoding throughput | tokens per second": 1.5,
    "memory bandwidth | memory-bound": 0.9,
    "inference latency | wall-clock": 9.6,
    "hardware-aware | hardware accelerator": 1.2,
    "state space model | Mamba": 7.9,
    "latent reasoning | continuous reasoning | concept model": 3.8,
    "reinforcement learning from human feedback | RLHF": 3.5,
    "verifiable reward | RLVR | GRPO": 25.1,
    "post-training": 20.7,
    "pre-training": 33.6,
    "scaling law": 2.9,
    "parameter-efficient | LoRA": 25.1,
    "efficient inference | inference efficiency | efficient training": 6.1,
    "communication overhead | all-reduce | collective communication": 1.5,
}
EXCLUDE = ("survey", "review", "tutorial")
