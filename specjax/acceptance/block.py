"""Block verification: the nodes of a chain judged together, exactly.

Sun et al. 2025 (arXiv 2403.10444), algorithm 2.
"""

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from specjax import sampling
from specjax.types import Law, Proposal, Streams, Verdict


@dataclasses.dataclass(frozen=True)
class BlockVerification:
  """Keeps at least as many tokens as Rejection on average, the same output law.

  With P_0 = 1 and P_i = min(1, P_{i-1} p(x_i) / q(x_i)), the first i nodes are
  kept with probability P_i, so it looks at every node before it settles on one:
  the law holds for a round's tokens together, not at an offset given that the
  round reached it. For point masses it keeps as much as Rejection.
  """

  name = "block_verification"
  supports = frozenset({"chain"})
  lossless_for = supports
  needs = "it weighs one path as a whole, and knows no law for several at once"

  def __call__(self, proposal: Proposal, p: Law, keys: Streams) -> Verdict:
    """The last i with u_i < h_i, then one token of max(0, P_i p - q).

    h_i = A_i / (A_i + 1 - P_i), A_i the sum of max(0, P_i p_i - q_{i+1}), and
    P_i itself at a row's last node, after which p is drawn from.
    """
    nodes = proposal.nodes
    batch, size = nodes.tokens.shape[0], nodes.num_judged
    index = jnp.broadcast_to(jnp.arange(size, dtype=jnp.int32), (batch, size))
    q_row = index
    if proposal.q is not None:
      if proposal.q_row is None:
        raise ValueError("a proposal with q names each node's row of it: q_row")
      q_row = jnp.broadcast_to(proposal.q_row[:, :size], (batch, size))
    whole = _path_weights(proposal, p, index, q_row)  # P_0 ... P_N
    count = jnp.minimum(nodes.count, size)

    u = sampling.round_uniform(keys, sampling.Purpose.ACCEPT, index)
    kept = u < whole[:, 1:]
    if size > 1:
      weight = whole[:, 1:-1]
      excess = _excess(proposal, p, index, q_row, whole)
      # 0 < 0 where p and q agree after a whole path: a later node is kept then.
      inside = u[:, :-1] * (excess + 1.0 - weight) < excess
      last = index[:, :-1] + 1 == count[:, None]
      kept = kept.at[:, :-1].set(jnp.where(last, kept[:, :-1], inside))
    kept &= index < count[:, None]
    accepted = jnp.where(kept, index + 1, 0).max(-1, initial=0)

    weights = sampling.dense(p, accepted)
    if size:
      following = jnp.minimum(accepted, size - 1)[:, None]
      if proposal.q is None:
        token = jnp.take_along_axis(nodes.tokens, following, 1)[:, 0]
        proposed = jax.nn.one_hot(token, weights.shape[-1])
      else:
        row = jnp.take_along_axis(q_row, following, 1)[:, 0]
        proposed = sampling.dense(proposal.q, row)
      weight = jnp.take_along_axis(whole, accepted[:, None], 1)
      residual = jnp.maximum(weight * weights - proposed, 0.0)
      # Rounding may leave nothing, where the laws are all but equal.
      use = (accepted < count) & (residual.sum(-1) > 0.0)
      weights = jnp.where(use[:, None], residual, weights)
    u = sampling.round_uniform(
      keys, sampling.Purpose.RECOVER, accepted[:, None]
    )
    slots = jnp.minimum(jnp.arange(size + 1)[None], accepted[:, None])
    return Verdict(
      slots=slots.astype(jnp.int32),
      accepted=accepted,
      next_token=sampling.inverse_cdf(weights, u[:, 0]),
    )


def _path_weights(
  proposal: Proposal,
  p: Law,
  index: Int[Array, "B N"],
  q_row: Int[Array, "B N"],
) -> Float[Array, "B N+1"]:
  """P_0 ... P_N; 0 from the first token on that p excludes."""
  batch, size = index.shape
  drafted = proposal.nodes.tokens[:, :size]
  p_drafted = sampling.prob(p, index, drafted)
  if proposal.q is None:
    q_drafted = jnp.ones_like(p_drafted)
  else:
    q_drafted = sampling.prob(proposal.q, q_row, drafted)
  weights = [jnp.ones((batch,))]
  for i in range(size):
    weight, q = weights[-1] * p_drafted[:, i], q_drafted[:, i]
    ratio = weight / jnp.where(q > 0.0, q, 1.0)
    full = (weight > 0.0) & (weight >= q)
    weights.append(jnp.where(full, 1.0, ratio))
  return jnp.stack(weights, 1)


def _excess(
  proposal: Proposal,
  p: Law,
  index: Int[Array, "B N"],
  q_row: Int[Array, "B N"],
  whole: Float[Array, "B N+1"],
) -> Float[Array, "B N-1"]:
  """A_1 ... A_{N-1}: the mass of max(0, P_i p - q) after each node."""
  size = index.shape[1]
  if proposal.q is None:  # all of P_i p but the next token's
    following = proposal.nodes.tokens[:, 1:size]
    return whole[:, 1:-1] * (1.0 - sampling.prob(p, index[:, 1:], following))
  excess = [
    jnp.maximum(
      whole[:, i, None] * sampling.dense(p, index[:, i])
      - sampling.dense(proposal.q, q_row[:, i]),
      0.0,
    ).sum(-1)
    for i in range(1, size)
  ]
  return jnp.stack(excess, 1)
