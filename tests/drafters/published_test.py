"""Published drafters say what other code says of them, and come back whole.

The fixtures and what they should say: tests/data/drafters/make_fixtures.py.
"""

import dataclasses
import importlib.util
import json
import pathlib
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from specjax import passes
from specjax.checkpoints import CheckpointError, published, read_huggingface
from specjax.checkpoints.drafter_files import DrafterFile, save_drafter
from specjax.checkpoints.loaded import LoadedModel
from specjax.checkpoints.published import features, vocabulary
from specjax.drafters import DrafterSettings, registry, trained
from specjax.models.decoder import Transformer
from specjax.models.eagle import EagleHead
from specjax.models.eagle_config import config_for, default_taps
from specjax.models.heads import Medusa
from specjax.types import Slots

DATA = pathlib.Path(__file__).parents[1] / "data" / "drafters"
EAGLES = ("speculators_eagle3", "speculators_eagle31", "eagle")
IDS = np.array([0, 3, 4, 9, 30, 63], np.int32)
SINGLE, MEDUSA = "model.safetensors", "medusa_lm_head.safetensors"


@pytest.fixture(scope="module")
def target():
  config, params = read_huggingface(DATA / "target")
  params = jax.tree.map(jnp.asarray, params)
  return LoadedModel("target", Transformer(config), params)


def expected(name):
  return np.load(DATA / name / "expected.npz")


def run_target(target, tokens, taps):
  """Features of all tokens but the last, which has no token after it."""
  index = jnp.arange(len(tokens), dtype=jnp.int32)[None]
  slots = Slots(jnp.asarray(tokens)[None], index, passes.causal(index))
  empty = target.model.init_cache(1, 0)
  out = target.model(target.params, slots, empty, taps=taps)
  return {name: x[:, :-1] for name, x in out.taps.items()}


@jax.jit(static_argnames="config")
def two_steps(config, params, taps, tokens, place):
  """Logits of every pair, and of one more pair that follows that at `place`."""
  head = EagleHead(config)
  pairs, empty = tokens[None, 1:], head.init_cache(1, 0)
  size = pairs.shape[1]
  index = jnp.arange(size, dtype=jnp.int32)[None]
  hidden, fresh = head.feed(
    params,
    Slots(pairs, index, passes.causal(index)),
    head.fuse(params, taps),
    empty,
  )
  first = head.logits(params, hidden)[0]
  column = jnp.arange(size + 1)[None, None]
  at = jax.lax.dynamic_slice_in_dim
  one = Slots(
    tokens=at(pairs, place + 1, 1, 1),
    positions=jnp.broadcast_to(place + 1, (1, 1)),
    mask=(column <= place) | (column == size),
  )
  again, _ = head.feed(params, one, at(hidden, place, 1, 1), empty, fresh)
  return first, head.logits(params, again)[0, 0]


@pytest.mark.parametrize("name", EAGLES)
def test_says_what_the_code_of_others_says_of_it(target, name):
  wanted = expected(name)
  drafter, draft = trained.load(DATA / name, target)
  tokens = jnp.asarray(wanted["tokens"])
  taps = run_target(target, tokens, drafter.taps)
  places = (2,) if name == "eagle" else (0, 5, 9)
  for place in places:
    first, second = two_steps(drafter.config, draft.params, taps, tokens, place)
    np.testing.assert_allclose(first, wanted["first"], 1e-5, 1e-5)
    row = 0 if name == "eagle" else place
    np.testing.assert_allclose(second, wanted["second"][row], 1e-5, 1e-5)


def test_medusa_says_what_its_formula_says(target):
  wanted = expected("medusa")
  drafter, draft = trained.load(DATA / "medusa", target)
  taps = run_target(target, jnp.asarray(wanted["tokens"]), ("hidden",))
  said = drafter.net(draft.params, taps["hidden"][0])
  np.testing.assert_allclose(said, wanted["first"], 1e-5, 1e-5)


def tensors_of(folder):
  single = MEDUSA if (folder / MEDUSA).is_file() else SINGLE
  return load_file(folder / single)


def same(found, wanted):
  assert found.keys() == wanted.keys()
  for name, tensor in wanted.items():
    assert found[name].dtype == tensor.dtype, name
    np.testing.assert_array_equal(found[name], tensor, err_msg=name)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("name", [*EAGLES, "medusa"])
def test_a_published_drafter_goes_out_as_it_came_in(
  tmp_path, target, name, dtype
):
  folder = shutil.copytree(DATA / name, tmp_path / "in")
  single = MEDUSA if name == "medusa" else SINGLE
  tensors = load_file(folder / single)
  cast = {
    key: x.astype(jnp.dtype(dtype)) if x.dtype == np.float32 else x
    for key, x in tensors.items()
  }
  save_file(cast, folder / single)
  file = published.read(folder, target)
  assert file.notes["dtype"] == dtype
  form = published.find_format(folder)
  published.write(tmp_path / "out", file, target, form, dtype=dtype)
  assert published.find_format(tmp_path / "out") == form
  same(tensors_of(tmp_path / "out"), cast)


def eagle(target, version=3, ids=IDS, qk_norm=False, **options):
  size = None if ids is None else len(ids)
  config = config_for(
    target.model.config, version=version, draft_vocab_size=size, **options
  )
  layer = dataclasses.replace(config.layer, qk_norm=qk_norm)
  config = dataclasses.replace(config, layer=layer)
  shapes = jax.eval_shape(EagleHead(config).init, jax.random.key(0))
  settings = dataclasses.asdict(config)
  settings["taps"] = list(config.taps)
  return drafter_file(f"eagle{version}", settings, shapes, ids)


def medusa(target, ids=None, own_heads=True, num_layers=1):
  rows = target.params["head"]["kernel"][: 64 if ids is None else len(ids)]
  net = Medusa(16, len(rows), 2, num_layers, own_heads)
  shapes = jax.eval_shape(net.init, jax.random.key(0), rows)
  return drafter_file("medusa", dataclasses.asdict(net), shapes, ids)


def drafter_file(kind, settings, shapes, ids):
  random = np.random.default_rng(1)
  params = jax.tree.map(
    lambda leaf: random.normal(size=leaf.shape).astype(np.float32), shapes
  )
  return DrafterFile(kind, settings, "target", (64, 16), params, ids)


OURS = {
  "eagle3": (eagle, dict(taps=("layer_0", "layer_3", "layer_7"))),
  "eagle3 whole": (eagle, dict(ids=None)),
  "eagle3 3.1": (eagle, dict(fc_norm=True, norm_output=True)),
  "speculators": (eagle, dict(taps=("layer_7", "layer_0"))),
  "speculators qwen3": (eagle, dict(qk_norm=True)),
  "eagle": (eagle, dict(version=1, ids=None)),
  "medusa": (medusa, {}),
  "vllm-medusa": (medusa, dict(ids=IDS)),
  "vllm-medusa shared": (medusa, dict(own_heads=False, ids=IDS)),
  "vllm-medusa blocks": (medusa, dict(num_layers=3)),
}


@pytest.mark.parametrize("case", OURS)
def test_a_drafter_of_ours_comes_back_from_each_layout(tmp_path, target, case):
  make, options = OURS[case]
  file, form = make(target, **options), case.split()[0]
  published.write(tmp_path / "it", file, target, form)
  back = published.read(tmp_path / "it", target)
  assert (back.kind, back.settings) == (file.kind, file.settings)
  assert (back.target, back.target_sizes) == ("target", (64, 16))
  found, wanted = (
    jax.tree_util.tree_leaves_with_path(x.params) for x in (back, file)
  )
  assert [key for key, _ in found] == [key for key, _ in wanted]
  for (_, a), (_, b) in zip(found, wanted, strict=True):
    np.testing.assert_array_equal(a, b)
  np.testing.assert_array_equal(back.token_ids, file.token_ids)


@pytest.mark.parametrize("ids", [IDS, None])
def test_a_head_that_is_the_targets_is_written_out(tmp_path, target, ids):
  file = eagle(target, ids=ids, own_head=False)
  assert "head" not in file.params
  published.write(tmp_path / "it", file, target, "eagle3")
  back = published.read(tmp_path / "it", target)
  assert back.settings == file.settings | {"own_head": True}
  rows = np.asarray(target.params["head"]["kernel"])
  rows = rows if ids is None else rows[np.asarray(ids)]
  np.testing.assert_array_equal(back.params["head"]["kernel"], rows)


LAYER_OF_EAGLE = {
  *(f"self_attn.{part}_proj" for part in "qkvo"),
  *(f"mlp.{part}_proj" for part in ("gate", "up", "down")),
  *("hidden_norm", "input_layernorm", "post_attention_layernorm"),
}


def test_names_of_layouts_that_no_fixture_has(tmp_path, target):
  file = eagle(target, fc_norm=True)
  published.write(tmp_path / "a", file, target, "eagle3", embeddings=True)
  outer = {"fc", "fc_norm.0", "fc_norm.1", "fc_norm.2", "norm", "lm_head"}
  outer |= {"embed_tokens", *(f"midlayer.{name}" for name in LAYER_OF_EAGLE)}
  wanted = {"d2t", "t2d", *(f"{name}.weight" for name in outer)}
  assert tensors_of(tmp_path / "a").keys() == wanted
  published.write(tmp_path / "b", medusa(target, IDS), target, "vllm-medusa")
  wanted = {"token_map"}
  for k in range(2):
    wanted |= {f"blocks.{k}.layers.0.{part}" for part in ("weight", "bias")}
    wanted.add(f"lm_heads.{k}.weight")
  assert tensors_of(tmp_path / "b").keys() == wanted
  text = json.loads((tmp_path / "b" / "config.json").read_text())
  assert text["medusa_fc_bias"] and not text["original_lm_head"]
  assert (text["vocab_size"], text["truncated_vocab_size"]) == (64, 6)


def test_a_config_states_features_for_both_of_its_readers(tmp_path, target):
  published.write(tmp_path / "a", eagle(target), target, "eagle3")
  text = json.loads((tmp_path / "a" / "config.json").read_text())
  assert text["architectures"] == ["LlamaForCausalLMEagle3"]
  assert text[features.KEY] == [2, 4, 5]  # vLLM: what enters these layers
  assert text["eagle_config"][features.KEY] == [1, 3, 4]  # SGLang: what leaves
  assert (text["vocab_size"], text["draft_vocab_size"]) == (64, 6)


def test_eagles_map_is_of_offsets_and_vllms_is_of_ids(tmp_path, target):
  published.write(tmp_path / "a", eagle(target), target, "eagle3")
  maps = tensors_of(tmp_path / "a")
  assert (maps["d2t"].dtype, maps["t2d"].dtype) == (np.int64, bool)
  np.testing.assert_array_equal(np.arange(6) + maps["d2t"], IDS)
  np.testing.assert_array_equal(np.flatnonzero(maps["t2d"]), IDS)
  published.write(tmp_path / "b", medusa(target, IDS), target, "vllm-medusa")
  np.testing.assert_array_equal(tensors_of(tmp_path / "b")["token_map"], IDS)


@pytest.mark.parametrize(
  "form, key, value",
  [("eagle", "bias", False), ("vllm-medusa", "medusa_fc_bias", False)],
)
def test_biases_of_zero_are_left_out(tmp_path, target, form, key, value):
  file = eagle(target, 1, None) if form == "eagle" else medusa(target)

  def clear(path, leaf):
    bias = path[-1] == jax.tree_util.DictKey("bias")
    return np.zeros_like(leaf) if bias else leaf

  params = jax.tree_util.tree_map_with_path(clear, file.params)
  file = dataclasses.replace(file, params=params)
  published.write(tmp_path / "it", file, target, form)
  assert not any(name.endswith("bias") for name in tensors_of(tmp_path / "it"))
  text = json.loads((tmp_path / "it" / "config.json").read_text())
  assert text[key] is value
  back = published.read(tmp_path / "it", target)
  jax.tree.map(np.testing.assert_array_equal, back.params, params)


def test_rows_follow_a_map_in_another_order(tmp_path, target):
  published.write(tmp_path / "it", eagle(target), target, "eagle3")
  tensors = tensors_of(tmp_path / "it")
  rows, turned = tensors["lm_head.weight"], np.array([4, 0, 5, 2, 1, 3])
  tensors["lm_head.weight"] = rows[turned]
  tensors["d2t"] = IDS[turned] - np.arange(6)
  save_file(tensors, tmp_path / "it" / SINGLE)
  back = published.read(tmp_path / "it", target)
  np.testing.assert_array_equal(back.token_ids, IDS)
  np.testing.assert_array_equal(back.params["head"]["kernel"], rows)


def test_three_countings_of_a_feature():
  key, default = features.KEY, ("layer_1", "layer_3", "layer_4")
  # What enters layers 2, L // 2 and L - 3 leaves the layers before them.
  assert default == default_taps(8) == features.read_taps({}, 8)
  top, nested = features.write_taps(default)
  assert (top, nested) == ([2, 8 // 2, 8 - 3], [1, 3, 4])
  for raw in (
    {key: top},
    {"eagle_config": {key: nested}},
    {key: top, "eagle_config": {key: nested}},
  ):
    assert features.read_taps(raw, 8) == default
  assert features.read_taps({key: [8]}, 8) == ("layer_7",)
  for raw, fault in (
    ({key: top, "eagle_config": {key: top}}, "not the same"),
    ({key: [0, 3]}, "the embeddings"),
    ({key: [9]}, "leaves layer 8, and the target has 8"),
    ({key: ["1"]}, "list of integers"),
  ):
    with pytest.raises(ValueError, match=fault):
      features.read_taps(raw, 8)


def test_a_lost_map_is_found_out():
  d2t, t2d = vocabulary.to_offsets(IDS, 64).values()
  assert vocabulary.from_offsets(d2t, t2d, 64).tolist() == IDS.tolist()
  for broken, fault in (
    ((np.zeros_like(d2t), t2d), "was one lost"),
    ((d2t, np.zeros_like(t2d)), "was one lost"),
    ((IDS, None), "outside of 64"),  # ids, where offsets should be
    ((np.array([1, 0]), None), "a token twice"),
  ):
    with pytest.raises(ValueError, match=fault):
      vocabulary.from_offsets(*broken, 64)


LAYER = "transformer_layer_config"


@pytest.mark.parametrize(
  "section, change, fault",
  [
    (None, {"speculators_model_type": "peagle"}, "'peagle' is not supported"),
    (None, {"norm_before_residual": True}, "norm_before_residual = True"),
    (None, {"norm_before_fc": True}, "norm_before_fc = True"),
    (None, {"target_hidden_size": 32}, "target_hidden_size = 32"),
    (None, {"mask_token_id": 7}, "mask_token_id = 7"),
    (None, {"eagle_config": {"use_mtp_layernorm": True}}, "use_mtp_layernorm"),
    (None, {"fc_norm": True}, "it lacks fc_norm.0.weight"),
    (None, {"draft_vocab_size": 64}, "d2t has shape"),
    (None, {features.KEY: [1, 4, 9]}, "leaves layer 8"),
    (None, {features.KEY: [1, 4]}, "fc.weight has shape"),
    (LAYER, {"attention_bias": True}, "attention_bias is not supported"),
    (LAYER, {"num_hidden_layers": 2}, "1 layer, not 2"),
    (LAYER, {"model_type": "gemma"}, "'gemma' is not supported"),
    (LAYER, {"model_type": "qwen3"}, "lacks layers.0.self_attn.k_norm"),
    (LAYER, {"hidden_act": "gelu"}, "'gelu' is not supported"),
    (LAYER, {"rope_parameters": {"rope_type": "yarn"}}, "'yarn' is not"),
    (
      LAYER,
      {
        "rope_parameters": {
          "rope_type": "default",
          "partial_rotary_factor": 0.5,
        }
      },
      "partial_rotary_factor = 0.5",
    ),
    (
      LAYER,
      {"rope_parameters": {"full_attention": {"rope_theta": 9.0}}},
      "by type of layer",
    ),
    (LAYER, {"layer_types": ["sliding_attention"]}, "layer_types"),
    ("tensors", {"d2t": None}, "lacks d2t"),
    ("tensors", {"t2d": np.zeros(64, bool)}, "was one lost"),
    ("tensors", {"fc.weight": None}, "it lacks fc.weight"),
    ("tensors", {"fc.bias": np.zeros(16)}, "fc.bias has no place"),
    (
      "tensors",
      {"embed_tokens.weight": np.zeros((64, 16), np.float32)},
      "embed_tokens.weight is not the target's",
    ),
    ("tensors", {"norm.weight": np.zeros(16, np.int8)}, "has type int8"),
  ],
)
def test_what_is_not_done_is_refused_by_name(
  tmp_path, target, section, change, fault
):
  folder = shutil.copytree(DATA / "speculators_eagle3", tmp_path / "it")
  if section == "tensors":
    changed = load_file(folder / SINGLE) | change
    changed = {key: x for key, x in changed.items() if x is not None}
    save_file(changed, folder / SINGLE)
  else:
    path = folder / "config.json"
    text = json.loads(path.read_text())
    (text if section is None else text[section]).update(change)
    path.write_text(json.dumps(text))
  with pytest.raises(CheckpointError, match=fault):
    published.read(folder, target)


def test_what_a_layout_has_no_place_for_is_refused(tmp_path, target):
  reduced = medusa(target, IDS)
  last = eagle(target, taps=("layer_0", "layer_1", "hidden"))
  two = eagle(target, taps=("layer_0", "layer_1"))
  for file, form, fault in (
    (eagle(target, qk_norm=True), "eagle3", "no norms of queries and keys"),
    (last, "eagle3", "'hidden' follows the final norm"),
    (two, "eagle3", "has 3 features, not 2"),
    (reduced, "medusa", "vocabulary of their own; vllm-medusa has"),
    (medusa(target, own_heads=False), "medusa", "the target's rows"),
    (medusa(target, num_layers=2), "medusa", "and these differ"),
    (reduced, "eagle3", "it is no eagle3 draft but medusa"),
    (two, "medusa", "no Medusa heads but eagle3"),
    (two, "gguf", "format must be one of eagle3, eagle"),
    (dataclasses.replace(two, target_sizes=(65, 16)), "eagle3", "is not the"),
  ):
    with pytest.raises(CheckpointError, match=fault):
      published.write(tmp_path / "it", file, target, form)
  assert not (tmp_path / "it").exists()
  with pytest.raises(CheckpointError, match="exists"):
    published.write(tmp_path, reduced, target, "vllm-medusa")


def test_a_published_folder_is_a_draft_model(tmp_path, target):
  folder = str(DATA / "speculators_eagle3")
  given = DrafterSettings(draft_model=folder, num_speculative_tokens=3)
  drafter, draft = registry.resolve("eagle3", given, target)
  file = published.read(folder, target)
  save_drafter(tmp_path / "ours", file, "float32")
  ours = dataclasses.replace(given, draft_model=str(tmp_path / "ours"))
  again, same_draft = registry.resolve("eagle3", ours, target)
  assert drafter == again and drafter.num_speculative_tokens == 3
  leaves = (jax.tree.leaves(x.params) for x in (draft, same_draft))
  for found, wanted in zip(*leaves, strict=True):
    np.testing.assert_array_equal(found, wanted)
  with pytest.raises(ValueError, match="holds eagle3, which goes with"):
    registry.check("medusa", given)


def test_a_model_is_no_published_drafter(tmp_path):
  assert published.find_format(DATA / "target") is None
  assert published.find_format(tmp_path) is None
  assert not trained.is_folder("smollm2-135m")
  assert published.find_format(DATA / "eagle") == "eagle"


def test_torchs_own_files_need_torch(tmp_path, target, monkeypatch):
  shutil.copy(DATA / "medusa" / "config.json", tmp_path)
  (tmp_path / "medusa_lm_head.pt").write_bytes(b"")
  find = importlib.util.find_spec
  monkeypatch.setattr(
    importlib.util,
    "find_spec",
    lambda name: None if name == "torch" else find(name),
  )
  with pytest.raises(CheckpointError, match="install torch, or save"):
    published.read(tmp_path, target)
