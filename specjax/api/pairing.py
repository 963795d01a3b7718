"""What may be paired, and which rule judges where none is asked for."""

from typing import Any

import jax
import jax.numpy as jnp

from specjax import decoding, passes
from specjax.acceptance import ExactMatch, Recursive, Rejection
from specjax.constraints import Stops
from specjax.control import Constant
from specjax.passes import Engine
from specjax.sampling import make_sampling
from specjax.types import Drafter, Model, Params, Rule, Streams

_known: dict[tuple[Model, Drafter], bool] = {}


def check_parts(drafter: Any, rule: Any) -> None:
  """Refuses what is no drafter or no rule; a rule may be None.

  Raises:
    ValueError: a name or a class in place of a value, or a drafter that no
      compiled program can be kept for.
  """
  if isinstance(drafter, type) or not isinstance(drafter, Drafter):
    raise ValueError(
      f"drafter must be a value such as NGram(), got {drafter!r};"
      " specjax.drafters.resolve makes one of a name"
    )
  try:
    hash(drafter)
  except TypeError as error:
    raise ValueError(
      f"{type(drafter).__name__} cannot be hashed ({error}): declare it with"
      " @dataclasses.dataclass(frozen=True) and hold tuples, not lists"
    ) from error
  if rule is not None and (
    isinstance(rule, type) or not isinstance(rule, Rule)
  ):
    raise ValueError(
      f"rule must be a value such as Rejection(), got {rule!r};"
      " specjax.acceptance.make_rule makes one of a name"
    )


def default_rule(model: Model, drafter: Drafter, params: Params) -> Rule:
  """Exact match for point masses, rejection where nodes are drawn from q:
  of one sibling after another in a tree.

  For point masses exact match accepts as much as any exact rule and gives plain
  decoding's very tokens; where q is known rejection accepts more.
  """
  rule = Rejection() if drafter.siblings == "chain" else Recursive()
  if not drafter.num_nodes or drafter.siblings == "point":
    return ExactMatch()
  if (model, drafter) not in _known:
    _known[model, drafter] = _states_q(model, drafter, params)
  return rule if _known[model, drafter] else ExactMatch()


def _states_q(model: Model, drafter: Drafter, params: Params) -> bool:
  """Whether its proposals carry q, found by tracing one."""
  engine = Engine(model, drafter, ExactMatch(), Constant(), Stops())

  found = []

  def propose(params: Params):
    one = jnp.ones((1,), jnp.int32)
    rows = decoding.init_rows(
      engine,
      params,
      jnp.zeros((1, 32), jnp.int32),
      one,
      key=jax.random.key(0)[None],
      sampling=make_sampling(1),
      limit=32 * one,
      max_draft=drafter.max_depth * one,
      max_rounds=1,
    )
    keys = Streams(rows.key, rows.length)
    proposal, _ = passes.propose(engine, params, rows, keys)
    found.append(proposal.q is not None)

  jax.eval_shape(propose, params)
  return found[0]
