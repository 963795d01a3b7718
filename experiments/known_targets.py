"""Targets that need no file: a table of known law, and a tiny random net."""

from typing import Any

from absl import flags

from specjax import acceptance
from specjax.acceptance import Rejection
from specjax.api.pairing import default_rule
from specjax.drafters import registry
from specjax.drafters.settings import parse
from specjax.testing import cases, nets
from specjax.testing.__main__ import make_case
from specjax.testing.built_in import BUILT_IN
from specjax.types import Drafter, Model, Params, Rule

FLAGS = flags.FLAGS
NAMES = ("table", "tiny")
NO_DRAFTER = "give a --drafter: plain decoding is what it is held to"
PROMPT = (2, 0, 1, 3, 0, 1)
_TINY_VOCABULARY = 5
_DRAFT_FLAGS = ("draft_model", "draft_layers", "speculative_config")


def build(
  name: str, drafter: str, depth: int
) -> tuple[Model, Drafter, Params, Rule]:
  """A known target, and a drafter for it that is often wrong.

  A drafter that runs a model gets one of the target's kind: the table with a
  quarter of its contexts replaced, or the net with noise on its weights.

  Raises:
    ValueError: an unknown drafter, a flag that goes with real models only.
  """
  for flag in _DRAFT_FLAGS:
    if FLAGS[flag].value is not None:
      raise ValueError(
        f"--{flag} goes with a real model: --model={name} brings a draft of its"
        " own for --drafter=model"
      )
  drafter, own = parse(drafter)
  if own:
    raise ValueError(
      f"settings of a drafter go with a real model: --model={name} brings its"
      " own"
    )
  if depth < 1:
    raise ValueError(f"num_speculative_tokens must be at least 1, got {depth}")
  if drafter not in BUILT_IN:
    kind = registry.find(drafter)
    if not kind.num_nodes:
      raise ValueError(NO_DRAFTER)
  case = make_case(drafter, Rejection())
  if name == "table":
    model, target = cases.small_world()
  else:
    model = nets.tiny_net(_TINY_VOCABULARY)
    target = nets.random_net(model, scale=1.0)  # a law that is not sharp
  params = case.params(model, target)
  proposes = case.make(model, depth)
  rule = make_rule() or default_rule(model, proposes, params)
  acceptance.check_pair(proposes, rule)
  return model, proposes, params, rule


def make_rule() -> Rule | None:
  """The rule of --rule and --lenience; None where none is asked for.

  Raises:
    ValueError: no such rule, a lenience that does not go with it.
  """
  options: dict[str, Any] = {}
  if FLAGS.lenience is not None:
    if FLAGS.rule != acceptance.LossyLenience.name:
      raise ValueError("--lenience goes with --rule=lossy_lenience")
    options["lenience"] = FLAGS.lenience
  if FLAGS.rule is None:
    return None
  return acceptance.make_rule(FLAGS.rule, **options)
