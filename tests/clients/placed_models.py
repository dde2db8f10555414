"""Places whole models on four IPUs: the layers that begin blocks, the IPU of each block, and the
strategies.

Where a weight is used both early and late in the model, its IPU has two blocks.
"""

import poptorch
import torch
import transformers_models
import whole_models

BLOCKS = {
    "BERT": {"bert.embeddings": 0, "bert.encoder.layer.0": 1, "bert.encoder.layer.1": 2,
             "cls.predictions.transform": 3, "cls.predictions.decoder": 0},
    "GPT-2": {"transformer.wte": 0, "transformer.h.0": 1, "transformer.h.1": 2,
              "transformer.ln_f": 3, "lm_head": 0},
    "Llama": {"model.embed_tokens": 0, "model.layers.0": 1, "model.layers.1": 2, "lm_head": 3},
    "mixture of experts": {"model.embed_tokens": 0, "model.layers.0": 1, "model.layers.1": 2,
                           "lm_head": 3},
    "T5": {"encoder.embed_tokens": 0, "encoder.block.0": 1, "decoder.embed_tokens": 0,
           "decoder.block.0": 2, "decoder.block.1": 3, "decoder.final_layer_norm": 3,
           "lm_head": 0},
    "Mamba": {"backbone.embeddings": 0, "backbone.layers.0": 1, "backbone.layers.1": 2,
              "backbone.norm_f": 3, "lm_head": 0},
    "ViT": {"vit.embeddings": 0, "vit.layers.0": 1, "vit.layers.1": 2, "classifier": 3},
    "Wav2Vec2": {"model.wav2vec2.feature_extractor": 0,
                 "model.wav2vec2.feature_projection": 1,
                 "model.wav2vec2.encoder.layers.0": 2, "model.wav2vec2.encoder.layers.1": 3},
    "DETR": {"detr.model.backbone": 0, "detr.model.encoder.layers.0": 1,
             "detr.model.encoder.layers.1": 2, "detr.model.decoder": 3},
    "Whisper": {"model.encoder.conv1": 0, "model.encoder.layers.0": 1,
                "model.encoder.layer_norm": 2, "model.decoder.embed_tokens": 3},
    "DLRM": {"bottom": 0, "tables.0": 1, "tables.2": 2, "top": 3},
    "diffusion": {"first": 0, "down": 1, "attention": 2, "last": 3},
    "U-Net": {"down.0": 0, "down.2": 1, "up.0": 2, "up.2": 3},
    "ResNet-50": {"0": 0, "4": 1, "8": 2, "14": 3},
    "WaveNet": {"first": 0, "layers.2": 1, "layers.5": 2, "head": 3},
}  # fmt: skip


def micro_batches(name):
    """Returns the micro-batches that a weight update needs: a pipeline of n stages has n - 1 more
    backward."""
    return 2 * len(BLOCKS[name]) - 1


def made(name, count):
    """Returns the model, and as many different micro-batches as a weight update takes."""
    own = name in whole_models.MODELS
    one = whole_models.MODELS[name] if own else lambda: transformers_models.training(name)
    (model, *_), batches = zip(*(one() for _ in range(count)), strict=True)
    if own:
        return model, tuple(torch.cat(parts) for parts in zip(*batches, strict=True))
    return model, {key: torch.cat([batch[key] for batch in batches]) for key in batches[0]}


def divided(model, name):
    """Returns the model with its blocks "0", "1", ..."""
    for block, layer in enumerate(BLOCKS[name]):
        poptorch.BeginBlock(getattr(model, "model", model).get_submodule(layer), str(block))
    return model


def _stages(name, divisor):
    places = enumerate(BLOCKS[name].values())
    return [poptorch.Stage(str(block)).ipu(ipu // divisor) for block, ipu in places]


def sharded(name):
    return poptorch.ShardedExecution(*_stages(name, 2))


def pipelined(name):
    return poptorch.PipelinedExecution(*_stages(name, 1))


def phased(name):
    return poptorch.SerialPhasedExecution(*(poptorch.Phase(stage) for stage in _stages(name, 4)))


def phased_on_two(name):
    """Alternates phases between the IPUs."""
    return poptorch.ParallelPhasedExecution(*([str(i)] for i in range(len(BLOCKS[name]))))


STRATEGIES = {sharded: 2, pipelined: 4, phased: 1, phased_on_two: 2}
