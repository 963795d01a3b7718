"""Heads on the target's last feature propose a chain, or a tree.

Medusa, Cai et al. 2024 (arXiv 2401.10774), with exact rules; blockwise parallel
decoding, Stern et al. 2018 (arXiv 1811.03115).
"""

import dataclasses
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Bool, Float, Int, PyTree

from specjax import passes, sampling, topologies, trees
from specjax.drafters.chain import Chain
from specjax.drafters.tree import Tree
from specjax.filters import largest
from specjax.models.heads import HeadsNet
from specjax.models.reduced import to_target_vocabulary
from specjax.topologies import Topology
from specjax.types import (
  Feedback,
  Law,
  Params,
  Proposal,
  Rows,
  Sampling,
  Streams,
)


@struct.dataclass
class HeadsState:
  """The newest feature of each row, that of the last committed token but one.

  committed  t_0 ... t_L-2  t_L-1          t_L-1 has not been fed yet
  feature            h_L-2                 the language head read t_L-1 off it
  head                      .     1    2   so head k foretells t_L-1+k
  node                      .     0    1
  """

  hidden: Float[Array, "B d"]
  known: Bool[Array, "B"]  # False: the row's first token is its only one


class _OnFeature:
  """What both keep of a text: its newest feature.

  A base for frozen dataclasses, which declare `net` and `vocab_size`.
  """

  if TYPE_CHECKING:  # fields of the dataclass, wherever they stand there

    @property
    def net(self) -> HeadsNet: ...
    @property
    def vocab_size(self) -> int | None: ...

  taps = ("hidden",)

  def init(self, params: Params, batch: int, capacity: int) -> HeadsState:
    if params.draft is None:
      raise ValueError("heads need their trained weights: give draft=")
    says, vocab = self.net.vocab_size, self.vocab_size
    if vocab not in (None, says) and "token_ids" not in params.draft:
      raise ValueError(
        f"heads that say {says} of {vocab} tokens need token_ids in draft="
      )
    return HeadsState(
      hidden=jnp.zeros((batch, self.net.hidden_size)),
      known=jnp.zeros((batch,), bool),
    )

  def observe(
    self, params: Params, state: HeadsState, seen: Feedback
  ) -> HeadsState:
    last = jnp.maximum(seen.count - 1, 0)[:, None, None]
    hidden = jnp.take_along_axis(seen.taps["hidden"], last, 1)[:, 0]
    moves = seen.count > 0
    return HeadsState(
      hidden=jnp.where(
        moves[:, None], hidden.astype(jnp.float32), state.hidden
      ),
      known=state.known | moves,
    )


@dataclasses.dataclass(frozen=True)
class Heads(_OnFeature, Chain):
  """Drafts node i with head i + 1 of `net`, at the row's temperature.

  A head does not see the nodes before it. Weights are `Params.draft`: the
  net's, and "token_ids" where it says only some of the target's tokens.

  Attributes:
    net: the heads.
    num_speculative_tokens: at most as many as heads; None is all of them.
    vocab_size: V of the target; None is the net's own.
  """

  net: HeadsNet
  num_speculative_tokens: Any = None
  vocab_size: int | None = None

  def __post_init__(self):
    heads, given = self.net.num_heads, self.num_speculative_tokens
    number: int = heads if given is None else given
    object.__setattr__(self, "num_speculative_tokens", number)
    super().__post_init__()
    if number > heads:
      raise ValueError(f"{heads} heads cannot draft {number} tokens")

  def propose(
    self,
    params: Params,
    state: HeadsState,
    rows: Rows,
    budget: Int[Array, "B"],
    keys: Streams,
  ) -> tuple[Proposal, HeadsState]:
    budget = jnp.where(state.known, budget, 0)
    tokens, q = passes.confined(
      (budget > 0).any(),
      lambda: self._draw(params.draft, state.hidden, rows.sampling, keys),
    )
    proposal = Proposal(
      nodes=trees.chain(tokens, budget),
      q=q,
      q_row=jnp.arange(self.num_nodes, dtype=jnp.int32)[None],
    )
    return proposal, state

  def _draw(
    self,
    draft: PyTree,
    hidden: Float[Array, "B d"],
    settings: Sampling,
    keys: Streams,
  ) -> tuple[Int[Array, "B N"], Law]:
    """A token of every head's law, and the laws."""
    logits = self.net(draft, hidden, self.num_nodes)
    law = sampling.make_law(logits, settings)
    node = jnp.arange(self.num_nodes, dtype=jnp.int32)
    node = jnp.broadcast_to(node, logits.shape[:2])
    u = sampling.round_uniform(keys, sampling.Purpose.DRAFT, node)
    tokens = sampling.draw(law, u)
    if "token_ids" not in draft:
      return tokens, law
    # Temperature and filters do not care for what has no probability.
    ids, vocab = draft["token_ids"], self.vocab_size or self.net.vocab_size
    scaled = to_target_vocabulary(law.scaled, ids, vocab)
    return jnp.take(ids, tokens), dataclasses.replace(law, scaled=scaled)


@dataclasses.dataclass(frozen=True)
class HeadTree(_OnFeature, Tree):
  """A tree of the heads' likeliest tokens: those of head d + 1 at depth d.

  A node of rank k has the k-th likeliest token of its depth whatever stands
  above it (Cai et al. 2024, section 2.1.2). Tokens are point masses, so the
  row's temperature does not change them. Weights are those of `Heads`.

  Attributes:
    net: the heads.
    tree: at most as deep as there are heads.
    vocab_size: V of the target; None is the net's own.

  Raises:
    ValueError: a tree that is deeper.
  """

  net: HeadsNet
  tree: Topology = topologies.NAMED["medusa_63"]
  vocab_size: int | None = None

  siblings = "point"

  def __post_init__(self):
    if self.tree.max_depth > self.net.num_heads:
      raise ValueError(
        f"{self.net.num_heads} heads cannot draft a tree of depth"
        f" {self.tree.max_depth}"
      )

  def propose(
    self,
    params: Params,
    state: HeadsState,
    rows: Rows,
    budget: Int[Array, "B"],
    keys: Streams,
  ) -> tuple[Proposal, HeadsState]:
    budget = jnp.where(state.known, budget, 0)
    tokens = passes.confined(
      (budget > 0).any(), lambda: self._likeliest(params.draft, state.hidden)
    )
    return Proposal(self.nodes(tokens, budget)), state

  def _likeliest(
    self, draft: PyTree, hidden: Float[Array, "B d"]
  ) -> Int[Array, "B N"]:
    logits = self.net(draft, hidden, self.max_depth)
    ranks, depths = self.tree.ranks, self.tree.depths
    most = min(max(ranks) + 1, logits.shape[-1])
    _, top = largest(logits, most)  # [B heads K]
    rank = jnp.minimum(jnp.asarray(ranks), most - 1)
    tokens = top[:, jnp.asarray(depths) - 1, rank].astype(jnp.int32)
    return (
      jnp.take(draft["token_ids"], tokens) if "token_ids" in draft else tokens
    )
