"""Lists further models of the transformers library: class names, and differences from
transformers_models.py.
"""

import torch
import transformers as tf
from transformers_models import (
    CAUSAL,
    NO_DROPOUT,
    PATCHES,
    SOUND,
    TEXT,
    WIDTHS,
    ids,
    images,
    sound,
    text,
)

ENCODER = {**TEXT, **NO_DROPOUT}
SEQUENCES = {"vocab_size": 99, "max_position_embeddings": 32, **WIDTHS}
GPT = {"vocab_size": 99, "n_embd": 32, "n_layer": 2, "n_head": 4, "rotary_dim": 4,
       "n_positions": 32, "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}  # fmt: skip
HEADS = {"vocab_size": 99, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
QUIET = {"hidden_dropout": 0.0, "attention_dropout": 0.0}
EXPERTS = {**CAUSAL, "num_experts": 3, "num_experts_per_tok": 2,
           "experts_implementation": "batched_mm"}  # fmt: skip
STAGES = {"num_encoder_blocks": 2, "depths": [1, 1], "hidden_sizes": [8, 8], "strides": [2, 2],
          "drop_path_rate": 0.0}  # fmt: skip
TWO = {"hidden_sizes": [8, 16], "depths": [1, 1]}

MASKED = {
    "Albert": {**ENCODER, "embedding_size": 8},
    "Electra": {**ENCODER, "embedding_size": 8},
    "MPNet": ENCODER,
    "MobileBert": {**ENCODER, "embedding_size": 16, "intra_bottleneck_size": 8},
    "SqueezeBert": {**ENCODER, "embedding_size": 16,
                    **{f"{part}_groups": 2 for part in "qkv"},
                    "post_attention_groups": 1, "intermediate_groups": 2, "output_groups": 2},
    "Funnel": {"vocab_size": 99, "block_sizes": [1, 1], "num_decoder_layers": 1, "d_model": 16,
               "n_head": 2, "d_head": 8, "d_inner": 24, "activation_dropout": 0.0, **QUIET},
    "Longformer": {**ENCODER, "max_position_embeddings": 64, "attention_window": 4},
    "BigBird": {**ENCODER, "attention_type": "original_full"},
    "RoFormer": ENCODER,
    "Data2VecText": ENCODER,
    "ModernBert": {**TEXT, "embedding_dropout": 0.0, "attention_dropout": 0.0, "mlp_dropout": 0.0,
                   "attn_implementation": "eager",
                   **{f"{word}_token_id": i for i, word in
                      enumerate(("pad", "eos", "bos", "cls", "sep"))}},
}  # fmt: skip
LEFT_TO_RIGHT = {
    "OPT": {**HEADS, "ffn_dim": 24, "max_position_embeddings": 32, "dropout": 0.0,
            "word_embed_proj_dim": 16},
    "GPTNeo": {"vocab_size": 99, "hidden_size": 16, "num_layers": 2, "num_heads": 2,
               "attention_types": [[["global", "local"], 1]], "window_size": 4,
               "max_position_embeddings": 32},
    "GPTJ": GPT,
    "GPTNeoX": {**TEXT, **QUIET},
    "CodeGen": GPT,
    "Bloom": {"vocab_size": 99, "hidden_size": 16, "n_layer": 2, "n_head": 2, **QUIET},
    "Falcon": {**HEADS, **QUIET},
    "Mpt": {"vocab_size": 99, "d_model": 16, "n_layers": 2, "n_heads": 2, "max_seq_len": 32},
    "Gemma": {**CAUSAL, "head_dim": 8},
    "Gemma2": {**CAUSAL, "head_dim": 8, "sliding_window": 4},
    "Qwen2": CAUSAL,
    "Qwen3": {**CAUSAL, "head_dim": 8},
    "Phi": {**CAUSAL, "resid_pdrop": 0.0},
    "Phi3": {**CAUSAL, "resid_pdrop": 0.0, "pad_token_id": 0},
    "StableLm": CAUSAL,
    "Olmo": CAUSAL,
    "Cohere": CAUSAL,
    "Granite": CAUSAL,
    "Mamba2": {"vocab_size": 99, "hidden_size": 16, "state_size": 4, "num_hidden_layers": 2,
               "num_heads": 4, "head_dim": 8, "n_groups": 2, "chunk_size": 4, "use_cache": False},
    "RecurrentGemma": {**HEADS, "num_hidden_layers": 3, "intermediate_size": 24,
                       "attention_window_size": 4, "lru_width": 16, "use_cache": False},
    "Qwen2Moe": {**EXPERTS, "moe_intermediate_size": 8, "shared_expert_intermediate_size": 8},
    "Olmoe": EXPERTS,
}  # fmt: skip
TO_SEQUENCES = {
    "Pegasus": SEQUENCES,
    "MBart": SEQUENCES,
    "M2M100": {**SEQUENCES, "encoder_layerdrop": 0.0, "decoder_layerdrop": 0.0},
    "LED": {"vocab_size": 99, "max_encoder_position_embeddings": 64, "attention_window": 4,
            "max_decoder_position_embeddings": 32, **WIDTHS},
    "MT5": {"vocab_size": 99, "d_model": 16, "d_kv": 8, "d_ff": 24, "num_layers": 2,
            "num_heads": 2, "dropout_rate": 0.0, "decoder_start_token_id": 0},
}  # fmt: skip
OF_IMAGES = {
    "Beit": {**PATCHES, **NO_DROPOUT, "drop_path_rate": 0.0},
    "Dinov2": {**PATCHES, **NO_DROPOUT, "drop_path_rate": 0.0},
    "ResNet": {**TWO, "embedding_size": 8},
    "RegNet": {**TWO, "embedding_size": 8, "groups_width": 4},
    "ConvNextV2": {**TWO, "num_stages": 2, "patch_size": 2},
    "PoolFormer": {**STAGES, "patch_sizes": [3, 3], "padding": [1, 1]},
    "Segformer": {**STAGES, **NO_DROPOUT, "patch_sizes": [3, 3], "sr_ratios": [2, 1],
                  "num_attention_heads": [1, 2], "mlp_ratios": [2, 2], "decoder_hidden_size": 8,
                  "classifier_dropout_prob": 0.0},
    "Swinv2": {**NO_DROPOUT, "image_size": 16, "patch_size": 2, "embed_dim": 8, "depths": [1, 1],
               "num_heads": [2, 2], "window_size": 4, "drop_path_rate": 0.0},
    "FocalNet": {**TWO, "image_size": 16, "patch_size": 2, "embed_dim": 8, "focal_levels": [1, 1],
                 "focal_windows": [3, 3], "drop_path_rate": 0.0, "hidden_dropout_prob": 0.0},
}  # fmt: skip
OF_SOUND = {
    "UniSpeech": SOUND,
    "WavLM": SOUND,
    "SEW": {**SOUND, "squeeze_factor": 2},
    "Data2VecAudio": SOUND,
    "Wav2Vec2Conformer": {**SOUND, "conv_depthwise_kernel_size": 5, "conformer_conv_dropout": 0.0},
}


def made(build, task, table):
    """Returns functions that make a model of `task` and its batch, by the name of the model."""
    return {
        name: build(
            getattr(tf, f"{name}For{task}"),
            lambda name=name, given=given: getattr(tf, f"{name}Config")(**given),
        )
        for name, given in table.items()
    }


def xlnet():
    configuration = tf.XLNetConfig(
        vocab_size=99, d_model=16, n_layer=2, n_head=2, d_inner=24, dropout=0.0
    )
    return text(tf.XLNetLMHeadModel, lambda: configuration)()


def canine():
    """Its tokens are characters."""
    given = {key: value for key, value in ENCODER.items() if key != "vocab_size"}
    batch = {"input_ids": torch.randint(5, 90, (2, 16)), "labels": torch.tensor([0, 1])}
    return tf.CanineForSequenceClassification(tf.CanineConfig(**given)), batch


def longt5():
    """Without a mask, the model makes none while it is traced, and reads its shape."""
    given = {"d_model": 16, "d_kv": 8, "d_ff": 24, "num_layers": 2, "num_heads": 2}
    configuration = tf.LongT5Config(
        vocab_size=99, dropout_rate=0.0, decoder_start_token_id=0, local_radius=3, **given
    )
    batch = {"input_ids": ids(), "attention_mask": torch.ones(2, 8).long(), "labels": ids()}
    return tf.LongT5ForConditionalGeneration(configuration), batch


def prophetnet():
    """Takes the decoder's tokens: code that makes them from labels asserts values."""
    sides = {
        f"{side}_{name}": value
        for side in ("encoder", "decoder")
        for name, value in (("ffn_dim", 24), ("attention_heads", 2))
    }
    layers = {"num_encoder_layers": 1, "num_decoder_layers": 1, "hidden_size": 16}
    quiet = {"dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0}
    configuration = tf.ProphetNetConfig(
        vocab_size=99, max_position_embeddings=32, **layers, **sides, **quiet
    )
    batch = {"input_ids": ids(), "decoder_input_ids": ids(), "labels": ids()}
    return tf.ProphetNetForConditionalGeneration(configuration), batch


def nystromformer():
    """Takes a four-dimensional mask, which it adds unchanged to its landmarks' scores."""
    configuration = tf.NystromformerConfig(**ENCODER, num_landmarks=4, segment_means_seq_len=8)
    batch = {"input_ids": ids(), "attention_mask": torch.zeros(2, 1, 1, 8), "labels": ids()}
    return tf.NystromformerForMaskedLM(configuration), batch


class XLM(torch.nn.Module):
    """Asserts the lengths of its sequences, which are constants."""

    def __init__(self):
        super().__init__()
        configuration = tf.XLMConfig(
            vocab_size=99, emb_dim=16, n_layers=2, n_heads=2, dropout=0.0, attention_dropout=0.0
        )
        self.model = tf.XLMWithLMHeadModel(configuration)

    def forward(self, **batch):
        return self.model(**batch, lengths=torch.tensor([8, 6]))


MODELS = {
    **made(text, "MaskedLM", MASKED),
    **made(text, "CausalLM", LEFT_TO_RIGHT),
    **made(text, "ConditionalGeneration", TO_SEQUENCES),
    **made(images, "ImageClassification", OF_IMAGES),
    **made(sound, "CTC", OF_SOUND),
    "XLNet": xlnet,
    "Canine": canine,
    "LongT5": longt5,
    "ProphetNet": prophetnet,
    "Nystromformer": nystromformer,
    "XLM": lambda: (XLM(), {"input_ids": ids(), "labels": ids()}),
}
