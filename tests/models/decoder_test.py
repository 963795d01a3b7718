"""A pass agrees with itself however its tokens are cut up, masked or cached."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from specjax.models import decoder
from specjax.types import Fresh, Model, Slots

TOLERANCE = dict(rtol=1e-5, atol=1e-5)


def test_it_is_a_model(lab):
  assert isinstance(lab.model, Model)
  assert hash(lab.model) == hash(decoder.Transformer(lab.model.config))
  assert lab.model.vocab_size == 61
  assert lab.model.max_positions == 2048


def test_abstract_params_are_the_shapes_of_init(lab):
  shapes = jax.tree.map(lambda x: (x.shape, x.dtype), lab.params)
  abstract = lab.model.abstract_params()
  assert shapes == jax.tree.map(lambda x: (x.shape, x.dtype), abstract)


@pytest.mark.parametrize("chunks", [(7, 1, 5, 1, 5), (1,) * 6])
def test_chunks_equal_one_pass(lab, chunks):
  tokens = lab.tokens(1, 2, sum(chunks))
  cache, logits = lab.model.init_cache(2, 32), []
  for chunk in jnp.split(tokens, np.cumsum(chunks)[:-1], axis=1):
    out, cache = lab.append(cache, chunk)
    logits.append(out.logits)
  np.testing.assert_allclose(
    np.concatenate(logits, axis=1), lab.full(tokens).logits, **TOLERANCE
  )


def test_a_length_of_several_blocks_equals_one_pass(lab):
  tokens = lab.tokens(2, 2, 601)
  _, cache = lab.append(lab.model.init_cache(2, 700), tokens[:, :600])
  out, _ = lab.append(cache, tokens[:, 600:])
  np.testing.assert_allclose(
    out.logits[:, 0], lab.full(tokens).logits[:, -1], rtol=1e-4, atol=2e-5
  )


def test_logits_do_not_look_ahead(lab):
  tokens = lab.tokens(3, 1, 12)
  changed = tokens.at[:, 7].set((tokens[:, 7] + 1) % lab.model.vocab_size)
  before, after = lab.full(tokens).logits, lab.full(changed).logits
  np.testing.assert_array_equal(before[:, :7], after[:, :7])
  moved = np.abs(before[:, 7:] - after[:, 7:]).max(axis=-1)
  assert (moved > 1e-3).all()


def test_gradient_reaches_only_the_past(lab):
  tokens = lab.tokens(4, 1, 6)
  slots = lab.chain(tokens, [0])
  cache = lab.model.init_cache(1, 0)

  def logit(embedding):
    params = lab.params | {"embed": {"embedding": embedding}}
    hidden = lab.model(params, slots, cache, taps=("hidden",)).taps["hidden"]
    return hidden[0, 3].sum()

  gradient = jax.jit(jax.grad(logit))(lab.params["embed"]["embedding"])
  touched = set(np.flatnonzero(np.abs(gradient).max(axis=1) > 0).tolist())
  assert touched == set(tokens[0, :4].tolist())


#            0
#          /   \
#         1     2        Slots 1 and 2 are alternatives, 3 follows 1 and
#         |     |        4 follows 2: paths 0-1-3 and 0-2-4.
#         3     4
ANCESTRY = np.array(
  [
    [1, 0, 0, 0, 0],
    [1, 1, 0, 0, 0],
    [1, 0, 1, 0, 0],
    [1, 1, 0, 1, 0],
    [1, 0, 1, 0, 1],
  ],
  dtype=bool,
)
DEPTHS, PATHS = np.array([0, 1, 1, 2, 2]), ([0, 1, 3], [0, 2, 4])


def test_a_tree_gives_the_logits_of_its_chains(lab):
  _, cache = lab.append(
    lab.model.init_cache(2, 64), lab.tokens(5, 2, 9), [9, 4]
  )
  tokens = lab.tokens(6, 2, 5)
  positions = cache.length[:, None] + jnp.asarray(DEPTHS)[None]
  slots = Slots(
    tokens=tokens, positions=positions, mask=jnp.asarray(ANCESTRY)[None]
  )
  tree = lab.run(slots, cache).logits
  for path in PATHS:
    index = jnp.asarray(path)
    chain = lab.run(lab.chain(tokens[:, index], cache.length), cache).logits
    np.testing.assert_allclose(tree[:, index], chain, **TOLERANCE)


def test_scratch_equals_cache(lab):
  prefix, tail = lab.tokens(7, 2, 5), lab.tokens(8, 2, 3)
  empty = lab.model.init_cache(2, 16)
  first = lab.run(lab.chain(prefix, empty.length), empty)
  _, cache = lab.append(empty, prefix)
  expected = lab.run(lab.chain(tail, cache.length), cache)

  slots = lab.chain(tail, cache.length)
  seen = jnp.ones((1, 3, 5), bool)
  slots = dataclasses.replace(
    slots, mask=jnp.concatenate([seen, slots.mask], axis=2)
  )
  out = lab.run(slots, empty, scratch=first.fresh)
  np.testing.assert_allclose(out.logits, expected.logits, **TOLERANCE)
  pairs = zip(
    jax.tree.leaves(out.fresh), jax.tree.leaves(expected.fresh), strict=True
  )
  for ours, theirs in pairs:
    np.testing.assert_allclose(ours, theirs, **TOLERANCE)


def test_a_masked_scratch_column_does_not_count(lab):
  tail = lab.tokens(8, 1, 2)
  cache = lab.model.init_cache(1, 16)
  expected = lab.run(lab.chain(tail, cache.length), cache)
  ones = Fresh(kv=((jnp.ones((1, 2, 3, 8)),) * 2,) * 2)
  slots = lab.chain(tail, cache.length)
  hidden = jnp.zeros((1, 2, 3), bool)
  slots = dataclasses.replace(
    slots, mask=jnp.concatenate([hidden, slots.mask], axis=2)
  )
  out = lab.run(slots, cache, scratch=ones)
  np.testing.assert_allclose(out.logits, expected.logits, **TOLERANCE)


@pytest.mark.parametrize("batch", [3, 9])
def test_rows_do_not_depend_on_other_rows(lab, batch):
  """Bit for bit: another row's length and keys change nothing."""
  tokens = lab.tokens(9, batch, 700)
  count = np.full(batch, 40)
  _, short = lab.append(lab.model.init_cache(batch, 800), tokens, count)
  count[1:] = np.linspace(300, 700, batch - 1).astype(int)
  _, ragged = lab.append(lab.model.init_cache(batch, 800), tokens, count)
  tail = lab.tokens(10, batch, 3)
  alone, _ = lab.append(short, tail)
  beside, _ = lab.append(ragged, tail)
  np.testing.assert_array_equal(alone.logits[0], beside.logits[0])
  assert np.abs(alone.logits[1] - beside.logits[1]).max() > 1e-3


def test_ragged_rows_equal_solo_rows(lab):
  tokens, tail = lab.tokens(11, 3, 20), lab.tokens(12, 3, 4)
  counts = [3, 20, 0]
  _, cache = lab.append(lab.model.init_cache(3, 32), tokens, counts)
  out, _ = lab.append(cache, tail)
  for row, count in enumerate(counts):
    joined = [tokens[row : row + 1, :count], tail[row : row + 1]]
    solo = lab.full(jnp.concatenate(joined, axis=1)).logits
    np.testing.assert_allclose(
      out.logits[row], solo[0, count:], rtol=1e-4, atol=2e-5
    )


def test_readout_takes_the_slots_asked_for(lab):
  tokens = lab.tokens(13, 2, 6)
  slots, cache = lab.chain(tokens, [0, 0]), lab.model.init_cache(2, 8)
  every = lab.run(slots, cache).logits
  for readout in ([[5, 0]], [[1, 1], [4, 2]]):
    index = jnp.asarray(readout)
    out = lab.run(slots, cache, readout=index)
    rows = np.broadcast_to(index, (2, 2))
    expected = np.take_along_axis(np.asarray(every), rows[..., None], axis=1)
    np.testing.assert_allclose(out.logits, expected, **TOLERANCE)
  none = lab.run(slots, cache, readout=jnp.zeros((1, 0), jnp.int32))
  assert none.logits.shape == (2, 0, 61)


def test_taps(lab):
  tokens = lab.tokens(14, 2, 4)
  slots, cache = lab.chain(tokens, [0, 0]), lab.model.init_cache(2, 8)
  out = lab.run(slots, cache, taps=("layer_0", "hidden"))
  assert {k: v.shape for k, v in out.taps.items()} == {
    "layer_0": (2, 4, 24),
    "hidden": (2, 4, 24),
  }
  head = lab.params["embed"]["embedding"]
  np.testing.assert_allclose(
    out.taps["hidden"] @ head.T, out.logits, **TOLERANCE
  )
  with pytest.raises(ValueError, match="no tap 'layer_2': this model has"):
    lab.run(slots, cache, taps=("layer_2",))


def test_first_layers_share_weights_and_stop_early(lab):
  draft, params = decoder.first_layers(lab.model, lab.params, 1)
  assert draft.config.num_layers == 1
  assert params["layers_0"] is lab.params["layers_0"]
  assert "layers_1" not in params
  tokens = lab.tokens(15, 1, 4)
  slots = lab.chain(tokens, [0])
  whole = lab.run(slots, lab.model.init_cache(1, 8), taps=("layer_0",))
  run = jax.jit(lambda *arguments: draft(*arguments, taps=("layer_0",)))
  cut = run(params, slots, draft.init_cache(1, 8))
  np.testing.assert_allclose(
    whole.taps["layer_0"], cut.taps["layer_0"], **TOLERANCE
  )
  for n in (0, 3):
    with pytest.raises(ValueError, match="cut from 2 layers; choose 1 to 2"):
      decoder.first_layers(lab.model, lab.params, n)


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("family", [{}, {"qkv_bias": True}, {"qk_norm": True}])
def test_logical_axes_are_parallel_to_the_weights(config, family, tied):
  config = dataclasses.replace(config, tie_embeddings=tied, **family)
  params = decoder.Transformer(config).abstract_params()
  axes = decoder.logical_axes(config)
  is_axes = lambda x: isinstance(x, tuple)  # noqa: E731
  ranks = jax.tree.map(len, axes, is_leaf=is_axes)
  assert ranks == jax.tree.map(lambda x: len(x.shape), params)


def test_bfloat16_weights_give_float32_logits(config, make_lab, lab):
  half = dataclasses.replace(config, dtype="bfloat16")
  params = jax.tree.map(lambda x: x.astype(jnp.bfloat16), lab.params)
  low = make_lab(half, params)
  tokens = lab.tokens(16, 2, 5)
  _, cache = low.append(low.model.init_cache(2, 16), tokens)
  out, cache = low.append(cache, lab.tokens(17, 2, 1))
  assert out.logits.dtype == jnp.float32
  assert {x.dtype for x in jax.tree.leaves(out.fresh)} == {jnp.bfloat16.dtype}
  assert {x.dtype for x in jax.tree.leaves(cache.layers)} == {
    jnp.bfloat16.dtype
  }
  joined = jnp.concatenate([tokens, lab.tokens(17, 2, 1)], axis=1)
  exact = lab.full(joined).logits[:, -1]
  np.testing.assert_allclose(out.logits[:, 0], exact, atol=0.25)
