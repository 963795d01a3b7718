"""Writes hf/<case>/ and default_model_logits.npz: logits of transformers.

Each case is a tiny random decoder in Hugging Face layout with expected.npz
beside it (ids [B W], logits [B W V]). The other file holds, for some prompts to
the default model, the logits of the last positions: the 50 largest and those of
200 fixed ids. Needs torch 2.13, transformers 5.24, gguf and accelerate:

  python tests/data/make_reference_logits.py SmolLM2-135M-Instruct.Q4_1.gguf
"""

import pathlib
import sys

import numpy as np
import torch
from transformers import (
  AutoModelForCausalLM,
  AutoTokenizer,
  LlamaConfig,
  LlamaForCausalLM,
  Qwen2Config,
  Qwen2ForCausalLM,
  Qwen3Config,
  Qwen3ForCausalLM,
)

HERE = pathlib.Path(__file__).parent
SIZES = dict(
  vocab_size=96,
  hidden_size=32,
  intermediate_size=48,
  num_hidden_layers=2,
  max_position_embeddings=256,
  initializer_range=0.2,
)
# Wavelengths on both sides of the ramp: 40 tokens reach past 16 positions.
SCALING = dict(
  rope_type="llama3",
  rope_theta=500.0,
  factor=8.0,
  low_freq_factor=1.0,
  high_freq_factor=4.0,
  original_max_position_embeddings=16,
)
CASES = {
  "llama_scaled_tied_6_2": (
    LlamaForCausalLM,
    LlamaConfig,
    dict(
      num_attention_heads=6,
      num_key_value_heads=2,
      hidden_size=48,
      head_dim=8,
      rope_parameters=SCALING,
      tie_word_embeddings=True,
    ),
  ),
  "llama_untied_8_2": (
    LlamaForCausalLM,
    LlamaConfig,
    dict(
      num_attention_heads=8,
      num_key_value_heads=2,
      tie_word_embeddings=False,
    ),
  ),
  "qwen2_untied_4_1": (
    Qwen2ForCausalLM,
    Qwen2Config,
    dict(
      num_attention_heads=4,
      num_key_value_heads=1,
      tie_word_embeddings=False,
    ),
  ),
  "qwen3_tied_8_2": (
    Qwen3ForCausalLM,
    Qwen3Config,
    dict(
      num_attention_heads=8,
      num_key_value_heads=2,
      head_dim=8,
      tie_word_embeddings=True,
    ),
  ),
}
PROMPTS = {
  "sentence": "The lighthouse keeper climbed the stairs every evening and",
  "code": "def load_paid(path, encoding='utf-8'):\n    orders = []\n    total",
  # Longer than one block of cached keys.
  "long": " ".join(
    f"Ship number {i} left the harbour at {i % 24} o'clock with {3 * i} crates."
    for i in range(25)
  ),
}


def write_case(name, model_class, config_class, changes):
  torch.manual_seed(0)
  specials = dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id"))
  config = config_class(**SIZES | specials | changes)
  model = model_class(config).eval()
  with torch.no_grad():
    for key, value in model.named_parameters():
      if "norm" in key:
        value.uniform_(0.5, 1.5)
      elif key.endswith("bias"):
        value.normal_(0, 0.5)
    ids = torch.randint(SIZES["vocab_size"], (2, 40))
    logits = model(ids).logits
  folder = HERE / "hf" / name
  model.save_pretrained(folder)
  (folder / "generation_config.json").unlink(missing_ok=True)
  np.savez_compressed(
    folder / "expected.npz",
    ids=ids.numpy().astype(np.int32),
    logits=logits.numpy(),
  )


def write_default(path, positions=4, top=50, fixed=200):
  folder, file = str(path.parent), path.name
  tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=file)
  model = AutoModelForCausalLM.from_pretrained(
    folder, gguf_file=file, dtype=torch.float32
  ).eval()
  vocab = model.config.vocab_size
  chosen = np.random.default_rng(0).choice(vocab, fixed, replace=False)
  out = {"fixed_ids": np.sort(chosen).astype(np.int32)}
  for name, prompt in PROMPTS.items():
    ids = tokenizer(prompt, return_tensors="pt").input_ids
    with torch.no_grad():
      logits = model(ids).logits[0, -positions:]
    values, top_ids = logits.topk(top, dim=-1)
    print(name, ids.shape[1], repr(tokenizer.decode(top_ids[-1, 0])))
    out[f"{name}/ids"] = ids[0].numpy().astype(np.int32)
    out[f"{name}/top_ids"] = top_ids.numpy().astype(np.int32)
    out[f"{name}/top_logits"] = values.numpy()
    out[f"{name}/fixed_logits"] = logits.numpy()[:, out["fixed_ids"]]
  np.savez_compressed(HERE / "default_model_logits.npz", **out)


def main():
  for name, case in CASES.items():
    write_case(name, *case)
  write_default(pathlib.Path(sys.argv[1]))


if __name__ == "__main__":
  main()
