"""Writes target/ and published drafters for it, each with expected.npz beside.

speculators_* are made, saved, loaded and run by the package speculators (0.9)
itself. eagle and medusa have no package to install: what they should say is
computed by torch modules written here from the papers' definitions (EAGLE:
arXiv 2401.15077, section 4.1; Medusa: arXiv 2401.10774, section 2.1.1), around
a layer of transformers. Needs torch, transformers, loguru, speculators:

  python make_fixtures.py                      writes them
  python make_fixtures.py check KIND FOLDER    loads an export of a drafter of
                                               KIND, and compares what it says

KIND is a folder here; FOLDER holds the layout of speculators, or EAGLE-3's with
embeddings, which speculators' own converter then reads. (It drops fc_norm, and
a file without embeddings is loaded with whatever the memory held.)
"""

import json
import pathlib
import sys
import tempfile

import numpy as np
import speculators
import torch
from safetensors.torch import save_file
from speculators.convert.eagle.eagle3_converter import Eagle3Converter
from speculators.proposals.greedy import GreedyTokenProposalConfig
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.models.llama.modeling_llama import (
  LlamaDecoderLayer,
  LlamaRotaryEmbedding,
)

HERE = pathlib.Path(__file__).parent
TARGET = HERE / "target"
LAYERS, WIDTH, VOCABULARY = 8, 16, 64
# Distinct from the default's (2, 4, 5), and of no order that hides a mistake.
AUXILIARY = [1, 4, 7]
SIZES = dict(
  vocab_size=VOCABULARY,
  hidden_size=WIDTH,
  num_attention_heads=2,
  num_key_value_heads=1,
  head_dim=8,
  max_position_embeddings=128,
)
SCALING = dict(
  rope_type="llama3",
  rope_theta=500.0,
  factor=8.0,
  low_freq_factor=1.0,
  high_freq_factor=4.0,
  original_max_position_embeddings=16,
)
KEPT = [3 * i // 2 for i in range(40)]  # target ids of the small vocabulary
TOKENS = [5, 17, 3, 44, 60, 9, 21, 2, 33, 58, 12, 40]


def stir(module, scale=0.3):
  for parameter in module.parameters():
    if parameter.dim() < 2:
      parameter.data = 1 + 0.2 * torch.randn_like(parameter)
    else:
      parameter.data = scale * torch.randn_like(parameter)


def make_target():
  config = LlamaConfig(
    **SIZES,
    num_hidden_layers=LAYERS,
    intermediate_size=16,
    rope_parameters=SCALING,
    tie_word_embeddings=False,
    initializer_range=0.2,
  )
  model = LlamaForCausalLM(config).eval()
  stir(model)
  model.save_pretrained(TARGET)


def run_target():
  """(pairs' tokens [1 n], what enters each layer, then the last feature)."""
  model = LlamaForCausalLM.from_pretrained(TARGET).eval()
  tokens = torch.tensor([TOKENS])
  states = model.model(tokens, output_hidden_states=True).hidden_states
  return tokens[:, 1:], [x[:, :-1] for x in states], model


def as_config(kept, **switches):
  layer = LlamaConfig(
    **SIZES,
    num_hidden_layers=1,
    intermediate_size=24,
    rope_parameters=dict(rope_type="default", rope_theta=5000.0),
    tie_word_embeddings=False,
    rms_norm_eps=1e-5,
  )
  layer._attn_implementation = "eager"
  return speculators.Eagle3SpeculatorConfig(
    transformer_layer_config=layer,
    draft_vocab_size=VOCABULARY if kept is None else len(kept),
    eagle_aux_hidden_state_layer_ids=AUXILIARY,
    speculators_config=speculators.SpeculatorsConfig(
      algorithm="eagle3",
      proposal_methods=[GreedyTokenProposalConfig(speculative_tokens=3)],
      default_proposal_method="greedy",
      verifier=speculators.VerifierConfig.from_pretrained(str(TARGET)),
    ),
    **switches,
  )


def make_eagle3(name, kept, **switches):
  model = speculators.Eagle3DraftModel(as_config(kept, **switches))
  if kept is not None:
    t2d = torch.zeros(VOCABULARY, dtype=torch.bool)
    t2d[kept] = True
    model.load_vocab_mappings(t2d, torch.tensor(kept) - torch.arange(len(kept)))
  model.load_verifier_weights()
  embeddings = model.embed_tokens.weight.data.clone()
  stir(model)
  model.embed_tokens.weight.data = embeddings
  model.save_pretrained(HERE / name)
  text = (HERE / name / "config.json").read_text()
  (HERE / name / "config.json").write_text(text.replace(str(TARGET), "target"))
  np.savez(HERE / name / "expected.npz", **run_eagle3(HERE / name))


def run_eagle3(folder):
  """What speculators' own model says at two steps: logits [n Vq] each."""
  config = speculators.SpeculatorModelConfig.from_pretrained(folder)
  config.speculators_config.verifier.name_or_path = str(TARGET)
  config.transformer_layer_config._attn_implementation = "eager"
  model = speculators.Eagle3DraftModel.from_pretrained(folder, config=config)
  model.eval()
  said = []
  model.lm_head.register_forward_hook(lambda *call: said.append(call[2]))
  tokens, states, _ = run_target()
  ids = config.eagle_aux_hidden_state_layer_ids
  with torch.no_grad():
    model(
      hidden_states=torch.cat([states[i] for i in ids], -1),
      input_ids=tokens,
      document_ids=torch.zeros_like(tokens),
      ttt_steps=2,
    )
  return {
    "tokens": np.asarray(TOKENS, np.int32),
    "first": said[0][0].numpy(),
    "second": said[1][0].numpy(),
  }


class Eagle(torch.nn.Module):
  """EAGLE-1 and 2: the layer lost its first norm, the head is the target's."""

  def __init__(self, config):
    super().__init__()
    self.fc = torch.nn.Linear(2 * WIDTH, WIDTH)
    self.layers = torch.nn.ModuleList([LlamaDecoderLayer(config, 0)])
    self.layers[0].input_layernorm = torch.nn.Identity()
    self.turn = LlamaRotaryEmbedding(config)

  def forward(self, embedded, feature):
    stream = self.fc(torch.cat([embedded, feature], -1))
    size = stream.shape[1]
    positions = torch.arange(size)[None]
    mask = torch.full((1, 1, size, size), -torch.inf).triu(1)
    return self.layers[0](
      stream,
      attention_mask=mask,
      position_embeddings=self.turn(stream, positions),
    )


def make_eagle():
  tokens, states, target = run_target()
  fields = dict(num_hidden_layers=1, intermediate_size=24)
  config = LlamaConfig(**SIZES, **fields, rope_parameters=SCALING)
  config._attn_implementation = "eager"
  net = Eagle(config).eval()
  stir(net)
  table = target.model.embed_tokens.weight.detach()
  embedded = table[tokens]
  first = net(embedded, states[-1])
  # One more pair after the third: its own output, and the fourth's token.
  second = net(
    embedded[:, :4], torch.cat([states[-1][:, :3], first[:, 2:3]], 1)
  )
  folder = HERE / "eagle"
  folder.mkdir(exist_ok=True)
  tensors = {n: p.detach() for n, p in net.named_parameters()}
  tensors["embed_tokens.weight"] = table.clone()
  save_file(tensors, folder / "model.safetensors")
  text = (
    SIZES
    | fields
    | dict(
      architectures=["LlamaForCausalLM"],
      model_type="llama",
      hidden_act="silu",
      rms_norm_eps=config.rms_norm_eps,
      rope_theta=SCALING["rope_theta"],
      rope_scaling={k: v for k, v in SCALING.items() if k != "rope_theta"},
      tie_word_embeddings=False,
      torch_dtype="float32",
    )
  )
  (folder / "config.json").write_text(json.dumps(text, indent=2) + "\n")
  np.savez(
    folder / "expected.npz",
    tokens=np.asarray(TOKENS, np.int32),
    first=target.lm_head(first)[0].detach().numpy(),
    second=target.lm_head(second)[0, -1:].detach().numpy(),
  )


class Block(torch.nn.Module):
  """x + SiLU(W x + b)."""

  def __init__(self):
    super().__init__()
    self.linear = torch.nn.Linear(WIDTH, WIDTH)

  def forward(self, x):
    return x + torch.nn.functional.silu(self.linear(x))


def make_medusa():
  _, states, _ = run_target()
  heads = torch.nn.ModuleList(
    torch.nn.Sequential(Block(), torch.nn.Linear(WIDTH, VOCABULARY, bias=False))
    for _ in range(3)
  )
  stir(heads)
  folder = HERE / "medusa"
  folder.mkdir(exist_ok=True)
  save_file(heads.state_dict(), folder / "medusa_lm_head.safetensors")
  text = dict(
    medusa_num_heads=3, medusa_num_layers=1, base_model_name_or_path="target"
  )
  (folder / "config.json").write_text(json.dumps(text, indent=2) + "\n")
  said = torch.stack([head(states[-1])[0] for head in heads], 1)
  np.savez(
    folder / "expected.npz",
    tokens=np.asarray(TOKENS, np.int32),
    first=said.detach().numpy(),
  )


def check(kind, folder):
  text = json.loads((pathlib.Path(folder) / "config.json").read_text())
  ids = text["eagle_aux_hidden_state_layer_ids"]
  with tempfile.TemporaryDirectory() as made:
    if "speculators_model_type" not in text:
      Eagle3Converter().convert(
        folder,
        made,
        str(TARGET),
        validate=False,
        eagle_aux_hidden_state_layer_ids=ids,
      )
      folder = made
    found = run_eagle3(folder)
  wanted = np.load(HERE / kind / "expected.npz")
  for name in ("first", "second"):
    apart = np.abs(found[name] - wanted[name])
    apart = apart[: len(apart) - 1] if name == "second" else apart
    print(f"{name}: {apart.max():.2e} apart at most")
    assert apart.max() < 1e-5


def main():
  if sys.argv[1:]:
    _, kind, folder = sys.argv[1:]
    check(kind, folder)
    return
  torch.manual_seed(0)
  make_target()
  make_eagle3("speculators_eagle3", KEPT)
  make_eagle3("speculators_eagle31", None, fc_norm=True, norm_output=True)
  make_eagle()
  make_medusa()
  for path in HERE.glob("*/*"):
    path.chmod(0o644)
    if path.name in ("config.py", "generation_config.json"):
      path.unlink()  # which transformers adds


if __name__ == "__main__":
  with torch.no_grad():
    main()
