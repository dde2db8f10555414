"""Small models of the transformers library with random weights.

Each is a function that returns the model and the keyword arguments of its forward.
"""

import poptorch
import torch
import transformers as tf
from transformers.utils import ModelOutput


class Training(torch.nn.Module):
    """Returns (scores, loss) of a model; the default loss is the mean square of the scores."""

    def __init__(self, model, constants):
        super().__init__()
        self.model, self.constants = model, constants

    def forward(self, **batch):
        given = self.model(**batch, **self.constants)
        scores = given.logits if "logits" in given else given.logits_per_image
        loss = scores.square().mean() if given.loss is None else given.loss
        return scores, poptorch.identity_loss(loss, reduction="none")


def training(name, models=None):
    """Returns the model as (scores, loss) of a batch of tensors, and that batch."""
    model, batch = (models or MODELS)[name]()
    tensors = {key: value for key, value in batch.items() if torch.is_tensor(value)}
    constants = {key: value for key, value in batch.items() if key not in tensors}
    return Training(model.train(), constants), tensors


TEXT = {
    "vocab_size": 99, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
    "intermediate_size": 24, "max_position_embeddings": 32,
}  # fmt: skip
CAUSAL = {**TEXT, "num_attention_heads": 4, "num_key_value_heads": 2}
WIDTHS = {
    "d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2,
    "decoder_attention_heads": 2, "encoder_ffn_dim": 24, "decoder_ffn_dim": 24,
    "dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0,
}  # fmt: skip
PATCHES = {
    "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24,
    "image_size": 16, "patch_size": 4,
}  # fmt: skip
SOUND = {
    "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24,
    "vocab_size": 12, "conv_dim": (8, 8), "conv_stride": (5, 2), "conv_kernel": (10, 3),
    "num_feat_extract_layers": 2, "num_conv_pos_embeddings": 4,
    "num_conv_pos_embedding_groups": 2, "hidden_dropout": 0.0, "activation_dropout": 0.0,
    "attention_dropout": 0.0, "feat_proj_dropout": 0.0, "final_dropout": 0.0, "layerdrop": 0.0,
    "apply_spec_augment": False,
}  # fmt: skip
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
RELATIVE = {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]}


def ids():
    return torch.randint(5, 90, (2, 8))


def text(kind, configuration):
    """A language model with its own loss."""
    return lambda: (kind(configuration()), {"input_ids": ids(), "labels": ids()})


def images(kind, configuration):
    """A classifier of images with its own loss."""

    def make():
        batch = {"pixel_values": torch.randn(2, 3, 16, 16), "labels": torch.tensor([0, 1])}
        return kind(configuration()), batch

    return make


class Recogniser(torch.nn.Module):
    """A model of sound, and the CTC loss of its scores. The library's loss picks the labels that
    are not negative, whose number a trace does not know."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_values, labels, label_lengths):
        logits = self.model(input_values).logits
        time = torch.full((logits.shape[0],), logits.shape[1], device=logits.device)
        logs = logits.log_softmax(-1, dtype=torch.float32).transpose(0, 1)
        loss = torch.nn.functional.ctc_loss(logs, labels, time, label_lengths)
        return ModelOutput(loss=loss, logits=logits)


def sound(kind, configuration):
    def make():
        labels, lengths = torch.randint(1, 12, (2, 5)), torch.tensor([5, 3])
        batch = {"input_values": torch.randn(2, 200), "labels": labels, "label_lengths": lengths}
        return Recogniser(kind(configuration())), batch

    return make


def whisper():
    configuration = tf.WhisperConfig(
        vocab_size=99, num_mel_bins=8, max_source_positions=10, max_target_positions=16,
        pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=3, **WIDTHS
    )  # fmt: skip
    batch = {"input_features": torch.randn(2, 8, 20), "labels": ids()}
    return tf.WhisperForConditionalGeneration(configuration), batch


def clip():
    vision = {**PATCHES, "num_hidden_layers": 1, "projection_dim": 8}
    written = {**TEXT, "projection_dim": 8, "eos_token_id": 2}
    configuration = tf.CLIPConfig(text_config=written, vision_config=vision, projection_dim=8)
    batch = {"input_ids": ids(), "pixel_values": torch.randn(2, 3, 16, 16), "return_loss": True}
    return tf.CLIPModel(configuration), batch


class Detector(torch.nn.Module):
    """DETR, and the loss of queries with given objects. The library's loss asks SciPy which object
    each query finds, with values that a trace does not have."""

    def __init__(self, configuration):
        super().__init__()
        self.detr = tf.DetrForObjectDetection(configuration)

    def forward(self, pixel_values, classes, boxes):
        given = self.detr(pixel_values)
        of_classes = torch.nn.functional.cross_entropy(given.logits.mT, classes)
        of_boxes = torch.nn.functional.l1_loss(given.pred_boxes, boxes)
        return ModelOutput(loss=of_classes + 5 * of_boxes, logits=given.logits)


def detr():
    backbone = tf.ResNetConfig(
        embedding_size=4, hidden_sizes=[4, 8], depths=[1, 1], out_features=["stage2"]
    )
    configuration = tf.DetrConfig(
        backbone_config=backbone, num_queries=5, num_labels=3, dropout=0.0, d_model=16,
        encoder_layers=2, decoder_layers=2, encoder_attention_heads=2, decoder_attention_heads=2,
        encoder_ffn_dim=24, decoder_ffn_dim=24,
    )  # fmt: skip
    classes = torch.randint(4, (2, 5))
    batch = {"pixel_values": torch.randn(2, 3, 32, 32), "classes": classes}
    return Detector(configuration), {**batch, "boxes": torch.rand(2, 5, 4)}


MODELS = {
    "BERT": text(tf.BertForMaskedLM, lambda: tf.BertConfig(**TEXT, **NO_DROPOUT)),
    "DistilBERT": text(
        tf.DistilBertForMaskedLM,
        lambda: tf.DistilBertConfig(
            vocab_size=99, dim=16, n_layers=2, n_heads=2, hidden_dim=24, dropout=0.0,
            attention_dropout=0.0,
        ),
    ),
    "RoBERTa": text(tf.RobertaForMaskedLM, lambda: tf.RobertaConfig(**TEXT, **NO_DROPOUT)),
    "DeBERTa": text(
        tf.DebertaForMaskedLM, lambda: tf.DebertaConfig(**TEXT, **NO_DROPOUT, **RELATIVE)
    ),
    "DeBERTa-v2": text(
        tf.DebertaV2ForMaskedLM,
        lambda: tf.DebertaV2Config(**TEXT, **NO_DROPOUT, **RELATIVE, position_buckets=4),
    ),
    "GPT-2": text(
        tf.GPT2LMHeadModel,
        lambda: tf.GPT2Config(
            vocab_size=99, n_positions=32, n_embd=16, n_layer=2, n_head=2, resid_pdrop=0.0,
            embd_pdrop=0.0, attn_pdrop=0.0,
        ),
    ),
    "Llama": text(tf.LlamaForCausalLM, lambda: tf.LlamaConfig(**CAUSAL)),
    "Mistral": text(tf.MistralForCausalLM, lambda: tf.MistralConfig(**CAUSAL, sliding_window=4)),
    "mixture of experts": text(
        tf.MixtralForCausalLM,
        lambda: tf.MixtralConfig(
            **CAUSAL, num_local_experts=3, num_experts_per_tok=2, sliding_window=None,
            experts_implementation="batched_mm",
        ),
    ),
    "T5": text(
        tf.T5ForConditionalGeneration,
        lambda: tf.T5Config(
            vocab_size=99, d_model=16, d_kv=8, d_ff=24, num_layers=2, num_heads=2,
            dropout_rate=0.0, decoder_start_token_id=0,
        ),
    ),
    "BART": text(
        tf.BartForConditionalGeneration,
        lambda: tf.BartConfig(vocab_size=99, max_position_embeddings=32, **WIDTHS),
    ),
    "Mamba": text(
        tf.MambaForCausalLM,
        lambda: tf.MambaConfig(
            vocab_size=99, hidden_size=16, state_size=4, num_hidden_layers=2, time_step_rank=2,
            use_cache=False,
        ),
    ),
    "RWKV": text(
        tf.RwkvForCausalLM,
        lambda: tf.RwkvConfig(
            vocab_size=99, hidden_size=16, num_hidden_layers=2, context_length=16,
            attention_hidden_size=16, use_cache=False,
        ),
    ),
    "ViT": images(tf.ViTForImageClassification, lambda: tf.ViTConfig(**PATCHES, **NO_DROPOUT)),
    "DeiT": images(tf.DeiTForImageClassification, lambda: tf.DeiTConfig(**PATCHES, **NO_DROPOUT)),
    "Swin": images(
        tf.SwinForImageClassification,
        lambda: tf.SwinConfig(
            image_size=16, patch_size=2, embed_dim=8, depths=[2, 2], num_heads=[2, 2],
            window_size=4, drop_path_rate=0.0, **NO_DROPOUT,
        ),
    ),
    "ConvNeXt": images(
        tf.ConvNextForImageClassification,
        lambda: tf.ConvNextConfig(hidden_sizes=[8, 12], depths=[1, 1], num_stages=2, patch_size=2),
    ),
    "Wav2Vec2": sound(tf.Wav2Vec2ForCTC, lambda: tf.Wav2Vec2Config(**SOUND)),
    "HuBERT": sound(tf.HubertForCTC, lambda: tf.HubertConfig(**SOUND)),
    "Whisper": whisper,
    "CLIP": clip,
    "DETR": detr,
}  # fmt: skip
