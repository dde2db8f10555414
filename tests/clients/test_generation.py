"""The device generates the same words with its cache as torch does without one."""

import copy

import poptorch
import pytest
import torch
import transformers
from generation import (
    CachedAttention,
    CachedDecoderStep,
    CachedStep,
    DynamicCachedAttention,
    Generator,
    Translator,
    generate_eagerly,
)


def question(seed):
    torch.manual_seed(seed)
    ids = torch.randint(40, (3, 7), dtype=torch.int32)
    return ids, torch.arange(7) < torch.tensor([[7], [4], [5]]), torch.full((3, 1), 1).int()


@pytest.mark.shared
@pytest.mark.parametrize("on_device", [False, True], ids=["host loop", "device loop"])
@pytest.mark.parametrize("attention", [CachedAttention, DynamicCachedAttention])
def test_generated_words_are_torchs(attention, on_device):
    torch.manual_seed(0)
    model = Translator(40, attention=attention).eval()
    for parameter in model.parameters():
        parameter.data.mul_(2)  # otherwise the words hardly differ
    eager = copy.deepcopy(model)
    generate = Generator(model if on_device else model.parallelize(), 3, 10, on_device)
    for seed in range(3):  # the cache's contents from the previous answer do not matter
        expected = generate_eagerly(eager, *question(seed), 10)
        assert expected.unique().numel() > 4
        assert torch.equal(generate(*question(seed)), expected)
    for program in (generate.encoder, generate.decoder):
        assert len(program.report()["ipus"]) == (1 if on_device else 2)


SIZES = {"vocab_size": 60, "initializer_range": 0.5}
HUGGING_FACE = {
    "gpt2": lambda: transformers.GPT2LMHeadModel(
        transformers.GPT2Config(n_embd=16, n_layer=2, n_head=2, n_positions=32, bos_token_id=1,
                                eos_token_id=1, **SIZES)
    ),
    "llama": lambda: transformers.LlamaForCausalLM(
        transformers.LlamaConfig(hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
                                 num_key_value_heads=1, intermediate_size=24, **SIZES)
    ),
}  # fmt: skip


def static_cache(model, heads, size):
    """Runs with 16 words of two sequences."""
    configuration = model.config.get_text_config(decoder=True)
    cache = transformers.StaticCache(config=configuration, max_cache_len=16)
    cache.early_initialization(2, heads, size, torch.float32, torch.device("cpu"))
    return cache


@pytest.mark.parametrize("name", HUGGING_FACE)
def test_words_of_a_hugging_face_model_with_its_own_cache_are_torchs(name):
    torch.manual_seed(0)
    model = HUGGING_FACE[name]().eval()
    start, length = torch.tensor([[3, 4, 5], [6, 7, 8]], dtype=torch.int32), 10
    expected = start
    with torch.no_grad():
        while expected.shape[1] < length:
            logits = model(input_ids=expected, use_cache=False).logits[:, -1:]
            expected = torch.cat([expected, logits.argmax(-1).int()], 1)
    assert expected[:, 3:].unique().numel() > 1
    heads = getattr(model.config, "num_key_value_heads", None) or model.config.num_attention_heads
    size = model.config.hidden_size // model.config.num_attention_heads
    step = poptorch.inferenceModel(CachedStep(model, static_cache(model, heads, size)))
    words = start[:, :1]
    for position in range(length - 1):
        word = step(words[:, -1:], torch.full((1, 1), position, dtype=torch.int32))
        given = start[:, position + 1 : position + 2]
        words = torch.cat([words, given if given.numel() else word], 1)
    assert torch.equal(words, expected)


WITH_ENCODER = {
    "t5": lambda: transformers.T5ForConditionalGeneration(
        transformers.T5Config(vocab_size=60, d_model=16, d_kv=8, d_ff=24, num_layers=2, num_heads=2,
                              initializer_factor=3.0, decoder_start_token_id=1, eos_token_id=None)
    ),
    "bart": lambda: transformers.BartForConditionalGeneration(
        transformers.BartConfig(vocab_size=60, d_model=16, encoder_layers=2, decoder_layers=2,
                                encoder_attention_heads=2, decoder_attention_heads=2,
                                encoder_ffn_dim=24, decoder_ffn_dim=24, init_std=0.5,
                                max_position_embeddings=32, decoder_start_token_id=1,
                                eos_token_id=None, forced_eos_token_id=None,
                                tie_word_embeddings=False)
    ),
}  # fmt: skip


@pytest.mark.shared
@pytest.mark.parametrize("name", WITH_ENCODER)
def test_words_of_a_decoder_with_its_own_cache_are_those_of_generate(name):
    torch.manual_seed(0)
    model = WITH_ENCODER[name]().eval()
    ids = torch.randint(3, 60, (2, 6))
    expected = model.generate(ids, max_new_tokens=10, do_sample=False, num_beams=1).int()
    assert expected.unique().numel() > 4
    encoder = poptorch.inferenceModel(model.get_encoder())
    step = poptorch.inferenceModel(CachedDecoderStep(model, static_cache(model, heads=2, size=8)))
    encoded = encoder(ids).last_hidden_state
    words = expected[:, :1]
    while words.shape[1] < expected.shape[1]:
        words = torch.cat([words, step(words[:, -1:].contiguous(), encoded)], 1)
    assert torch.equal(words, expected)
