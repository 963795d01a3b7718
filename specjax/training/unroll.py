"""EAGLE's training-time test: a draft is trained on its own hidden states.

Li et al. 2025 (arXiv 2503.01840, section 3.2 and figure 6) and the code it came
with.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int, PyTree

from specjax import passes
from specjax.models.eagle import EagleHead, EagleParams
from specjax.models.eagle_config import EagleConfig
from specjax.types import Fresh, Slots


def attend_chains(
  query: Float[Array, "B H L Dh"],
  cached: tuple[Array, Array],
  length: Int[Array, "B"],
  fresh: tuple[Float[Array, "B K _ Dh"], Float[Array, "B K _ Dh"]],
  mask: Bool[Array, "1 L J"],
) -> Float[Array, "B H L Dh"]:
  """Attention of L chains, each over the text so far and over itself.

  Fresh columns are J blocks of L: the text's, which slot i sees up to i, then
  one a step, of which it sees column i alone. `mask` says which blocks are
  there. Nothing is cached.

      block    text       step 1     step 2
      i = 0    1 . . .    1 . . .    1 . . .
      i = 1    1 1 . .    . 1 . .    . 1 . .
      i = 2    1 1 1 .    . . 1 .    . . 1 .
      i = 3    1 1 1 1    . . . 1    . . . 1
  """
  del cached, length
  batch, heads, size, head_dim = query.shape
  kv_heads = fresh[0].shape[1]
  scale = jnp.asarray(head_dim**-0.5, query.dtype)
  rows = (query * scale).reshape(batch, kv_heads, -1, size, head_dim)
  keys, values = (x.reshape(batch, kv_heads, -1, size, head_dim) for x in fresh)

  def product(form, *inputs):
    return jnp.einsum(form, *inputs, preferred_element_type=jnp.float32)

  causal = jnp.tril(jnp.ones((size, size), bool))[None, None, None]
  live = mask[:, None, None, :, 1:]
  text = product("bkgid,bkcd->bkgic", rows, keys[:, :, 0])
  chain = product("bkgid,bkjid->bkgij", rows, keys[:, :, 1:])
  scores = [
    jnp.where(causal, text, -jnp.inf),
    jnp.where(live, chain, -jnp.inf),
  ]
  weights = jax.nn.softmax(jnp.concatenate(scores, -1), axis=-1)
  weights = weights.astype(values.dtype)
  out = product("bkgic,bkcd->bkgid", weights[..., :size], values[:, :, 0])
  out += product("bkgij,bkjid->bkgid", weights[..., size:], values[:, :, 1:])
  return out.astype(query.dtype).reshape(query.shape)


def unroll(
  config: EagleConfig,
  params: EagleParams,
  tokens: Int[Array, "B L"],
  features: dict[str, Array],
  depth: int,
  read: Callable[[Int[Array, ""], Float[Array, "B L d"]], PyTree],
  *,
  remat: bool = False,
) -> PyTree:
  """Runs the draft from every position at once, as it will draft.

  Step s feeds token i + 1 + s of the text itself, never a guess, at position
  i + s: with the target's features at step 0, then with the hidden state that
  step s - 1 gave at i. Its output predicts token i + 2 + s.

  Args:
    config, params: the draft.
    tokens: texts; past a text's end anything.
    features: the target's, [B L d] each.
    depth: steps.
    read: (step, hidden states) -> what is kept of a step.
    remat: compute every step again for its gradient, so that one step's logits
      are held at a time; else all steps' are.

  Returns:
    what `read` returned, with a leading axis of steps.
  """
  batch, size = tokens.shape
  ahead = jnp.pad(tokens, ((0, 0), (0, depth)))
  index = jnp.broadcast_to(jnp.arange(size, dtype=jnp.int32), tokens.shape)
  text, chains = EagleHead(config), EagleHead(config, attend_chains)
  empty = text.init_cache(batch, 0)

  def fed(step):
    return lax.dynamic_slice_in_dim(ahead, step + 1, size, 1)

  def start(params, features):
    zero = jnp.zeros((), jnp.int32)
    slots = Slots(fed(zero), index, passes.causal(index))
    hidden = text.fuse(params, features)
    hidden, own = text.feed(params, slots, hidden, empty)
    return hidden, own.kv[0], read(zero, hidden)

  if remat:
    start = jax.checkpoint(start)
  hidden, own, first = start(params, features)
  if depth == 1:
    return jax.tree.map(lambda x: x[None], first)
  blocks = depth - 1  # of scratch: the text's and all steps' but the last
  block = jnp.arange(blocks + 1)[None, None]
  more = ((0, 0), (0, 0), (0, (blocks - 1) * size), (0, 0))

  def go_on(carry, step):
    hidden, scratch = carry
    live = (block < step) | (block == blocks)  # the last is its own
    live = jnp.broadcast_to(live, (1, size, blocks + 1))
    slots = Slots(fed(step), index + step, live)
    hidden, own = chains.feed(params, slots, hidden, empty, Fresh((scratch,)))
    at = jnp.minimum(step, blocks - 1) * size  # nobody reads the last step's
    scratch = jax.tree.map(
      lambda all, new: lax.dynamic_update_slice_in_dim(all, new, at, 2),
      scratch,
      own.kv[0],
    )
    return (hidden, scratch), read(step, hidden)

  if remat:
    go_on = jax.checkpoint(go_on, prevent_cse=False)  # a scan has none
  scratch = jax.tree.map(lambda x: jnp.pad(x, more), own)
  steps = jnp.arange(1, depth, dtype=jnp.int32)
  _, rest = lax.scan(go_on, (hidden, scratch), steps)
  return jax.tree.map(
    lambda one, many: jnp.concatenate([one[None], many]), first, rest
  )
