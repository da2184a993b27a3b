# SPDX-License-Identifier: Apache-2.0
"""Networks of the package transformers with random weights, for export.py: nothing is fetched.

Steps of decoders take what was kept of earlier words as inputs and give it back, a word longer."""
import torch
import transformers as hf
from torch import nn

WORDS = 30522


class Flat(nn.Module):
    """The entries of an answer that `keys` names, as tensors."""

    def __init__(self, inner, keys, names=("input_ids",), **options):
        super().__init__()
        self.inner, self.keys, self.names, self.options = inner, keys, names, options

    def forward(self, *x):
        y = self.inner(**dict(zip(self.names, x)), **self.options)
        return tuple(y[k] for k in self.keys)


def pairs(past, each):
    """(a, b, c, d, ...) as ((a, b), (c, d), ...), what models keep for each layer."""
    return tuple(tuple(past[i:i + each]) for i in range(0, len(past), each))


class Step(nn.Module):
    """One more word of a decoder, with keys and values of the words before."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, ids, *past):
        y = self.inner(input_ids=ids, past_key_values=pairs(past, 2), use_cache=True)
        return (y.logits, *[t for layer in y.past_key_values for t in layer])


class CrossStep(nn.Module):
    """The same of a decoder that also reads an encoder's states, of which it has kept the keys and values: it asks
    for the states, and does not look at them."""

    def __init__(self, inner, read):
        super().__init__()
        self.inner, self.states = inner, torch.zeros(1, read, inner.config.d_model)

    def forward(self, ids, *past):
        y = self.inner(decoder_input_ids=ids, encoder_outputs=(self.states,), past_key_values=pairs(past, 4),
                       use_cache=True)
        return (y.logits, *[t for layer in y.past_key_values for t in layer[:2]])


def ids(length, most=WORDS):
    return torch.randint(5, most, (1, length))


def mask(length):
    """The last eighth is padding."""
    m = torch.ones(1, length, dtype=torch.int64)
    m[:, length - length // 8:] = 0
    return m


OPEN = {"x0": {0: "N", 1: "T"}, "x1": {0: "N", 1: "T"}, "y0": {0: "N", 1: "T"}}


def text(model, length, axes=OPEN):
    """An encoder of text, open in batch and length."""
    return Flat(model, ["last_hidden_state"], ("input_ids", "attention_mask")), (ids(length), mask(length)), axes


def bert(length, **size):
    return text(hf.BertModel(hf.BertConfig(**size), add_pooling_layer=False), length)


def roberta(length):
    config = hf.RobertaConfig(vocab_size=50265, max_position_embeddings=514, pad_token_id=1)
    return text(hf.RobertaModel(config, add_pooling_layer=False), length)


def minilm(length):
    return bert(length, hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536)


def picture(model, key="logits", side=224):
    return Flat(model, [key], ("pixel_values",)), (torch.rand(1, 3, side, side) * 2 - 1,)


def kept(layers, heads, length, width, each=2):
    return [torch.randn(1, heads, length, width) * 0.5 for _ in range(layers * each)]


def gpt2(length=63):
    return Step(hf.GPT2LMHeadModel(hf.GPT2Config())), (ids(1), *kept(12, 12, length, 64)), {}


def llama(length=63):
    config = hf.LlamaConfig(vocab_size=8192, hidden_size=512, intermediate_size=1376, num_hidden_layers=6,
                            num_attention_heads=8, num_key_value_heads=2, max_position_embeddings=1024)
    return Step(hf.LlamaForCausalLM(config)), (ids(1, 8192), *kept(6, 2, length, 64)), {}


T5 = dict(vocab_size=32128, d_model=512, d_kv=64, d_ff=2048, num_layers=6, num_heads=8)


def t5_step(length=15, read=32):
    past = [torch.randn(1, 8, length if k % 4 < 2 else read, 64) * 0.5 for k in range(6 * 4)]
    model = hf.T5ForConditionalGeneration(hf.T5Config(**T5))
    return CrossStep(model, read), (ids(1, 32128), *past), {}


def whisper():
    encoder = hf.WhisperModel(hf.WhisperConfig(d_model=384, encoder_layers=4, encoder_attention_heads=6,
                                               encoder_ffn_dim=1536, decoder_layers=4, decoder_attention_heads=6,
                                               decoder_ffn_dim=1536)).encoder
    return Flat(encoder, ["last_hidden_state"], ("input_features",)), (torch.randn(1, 80, 3000),)


NETWORKS = {
    **{f"hf_bert_{n}": lambda n=n: bert(n) for n in (32, 128, 256)},
    **{f"hf_roberta_{n}": lambda n=n: roberta(n) for n in (32, 128, 256)},
    **{f"hf_distilbert_{n}": lambda n=n: text(hf.DistilBertModel(hf.DistilBertConfig()), n)
       for n in (32, 128, 256)},
    **{f"hf_minilm_{n}": lambda n=n: minilm(n) for n in (32, 128, 256)},
    "hf_vit": lambda: picture(hf.ViTForImageClassification(hf.ViTConfig(num_labels=1000))),
    "hf_swin": lambda: picture(hf.SwinForImageClassification(hf.SwinConfig(num_labels=1000))),
    "hf_clip_vision": lambda: picture(hf.CLIPVisionModelWithProjection(hf.CLIPVisionConfig()), "image_embeds"),
    "hf_clip_text": lambda: (Flat(hf.CLIPTextModelWithProjection(hf.CLIPTextConfig()), ["text_embeds"]),
                             (ids(77, 49408),)),
    "hf_whisper_encoder": whisper,
    "hf_t5_encoder": lambda: text(hf.T5EncoderModel(hf.T5Config(**T5)), 64),
    "hf_t5_step": t5_step,
    "hf_gpt2_step": gpt2,
    "hf_llama_step": llama,
}
FIXED = {"hf_swin"}
