"""From flags to a loaded target, drafter and rule."""

import dataclasses
import os
import sys
from typing import Any

import jax
from absl import flags

from experiments import memory
from specjax import acceptance, api, checkpoints
from specjax.api.pairing import default_rule
from specjax.checkpoints.loaded import LoadedModel, load_model
from specjax.checkpoints.names import cache_folder
from specjax.drafters import registry, speculative_config
from specjax.drafters import settings as drafter_settings
from specjax.drafters.settings import DrafterSettings
from specjax.types import Params, Rule

FLAGS = flags.FLAGS


@dataclasses.dataclass(frozen=True)
class Plan:
  """All that is known before a model is loaded; sound as far as it goes."""

  source: checkpoints.Source
  drafter: str
  settings: DrafterSettings
  rule: Rule | None
  sampling: api.Sampling

  @property
  def options(self) -> dict[str, Any]:
    """What was set of the drafter, beside the length of its draft."""
    given = self.settings.given()
    given.pop("num_speculative_tokens", None)
    return given

  def load(self) -> tuple[LoadedModel, dict[str, Any]]:
    """The target, and what `api.generate` takes of drafter and rule."""
    use_compilation_cache(FLAGS.compilation_cache)
    report(f"loading {self.source.name}")
    target = load_model(self.source, FLAGS.dtype)
    if self.settings.draft_model is not None:
      report(f"loading {self.settings.draft_model}")
    drafter, draft = registry.resolve(self.drafter, self.settings, target)
    options = dict(drafter=drafter, draft=draft, rule=self.rule)
    return target, options


def load_target(source: checkpoints.Source, dtype: str | None) -> LoadedModel:
  """The target that is trained on, and the process made ready for it."""
  use_compilation_cache(FLAGS.compilation_cache)
  report(f"loading {source.name}")
  target = load_model(source, dtype)
  memory.reuse_freed_memory()
  return target


def make_plan() -> Plan:
  """Checks the flags of `experiments.flags` without heavy work.

  Raises:
    ValueError: with the flag's fault.
  """
  sampling = api.Sampling(
    temperature=FLAGS.temperature,
    top_k=FLAGS.top_k,
    top_p=FLAGS.top_p,
    min_p=FLAGS.min_p,
  )
  if FLAGS.max_new_tokens < 1:
    raise ValueError(
      f"max_new_tokens must be at least 1, got {FLAGS.max_new_tokens}"
    )
  if not 0 <= FLAGS.seed < 2**32:  # what a key tells apart
    raise ValueError(f"seed must be 0 to {2**32 - 1}, got {FLAGS.seed}")
  if "" in FLAGS.stop:
    raise ValueError("a stop string must not be empty")
  name, settings = _drafter()
  settings = registry.completed(name, settings, FLAGS.model)
  registry.check(name, settings, FLAGS.model)
  return Plan(
    source=checkpoints.resolve(FLAGS.model),
    drafter=name,
    settings=settings,
    rule=_rule(),
    sampling=sampling,
  )


def judged_by(
  target: LoadedModel, methods: dict[str, Any]
) -> tuple[Params, Rule]:
  """The weights and the rule that `api.generate` would use.

  Args:
    methods: from `Plan.load`.

  Raises:
    ValueError: a rule that cannot judge the drafter.
  """
  drafter, draft = methods["drafter"], methods["draft"]
  params = Params(target.params, None if draft is None else draft.params)
  rule = methods["rule"] or default_rule(target.model, drafter, params)
  acceptance.check_pair(drafter, rule)
  return params, rule


def _drafter() -> tuple[str, DrafterSettings]:
  if FLAGS.speculative_config is None:
    name, own = drafter_settings.parse(FLAGS.drafter)
    for flag in drafter_settings.FIELDS:
      if FLAGS[flag].value is None:
        continue
      if own.setdefault(flag, FLAGS[flag].value) != FLAGS[flag].value:
        raise ValueError(
          f"--{flag}={FLAGS[flag].value} is at odds with"
          f" --drafter={FLAGS.drafter!r}"
        )
    return name, DrafterSettings.of(**own)
  for flag in ("drafter", "draft_model", "draft_layers"):
    if FLAGS[flag].present:
      raise ValueError(f"--speculative_config stands in place of --{flag}")
  name, stated = speculative_config.parse(FLAGS.speculative_config)
  number = FLAGS.num_speculative_tokens
  if stated.num_speculative_tokens is None:
    stated = dataclasses.replace(stated, num_speculative_tokens=number)
  elif number not in (None, stated.num_speculative_tokens):
    raise ValueError(
      f"--num_speculative_tokens={number} is at odds with"
      f" --speculative_config, which says {stated.num_speculative_tokens}"
    )
  return name, stated


def _rule() -> Rule | None:
  settings: dict[str, Any] = {}
  for flag, kind in (
    ("lenience", acceptance.LossyLenience),
    ("acceptance_rate", acceptance.LossySynthetic),
  ):
    if FLAGS[flag].value is None:
      continue
    if FLAGS.rule != kind.name:
      raise ValueError(f"--{flag} goes with --rule={kind.name}")
    settings[flag] = FLAGS[flag].value
  if rates := settings.get("acceptance_rate"):
    settings["acceptance_rate"] = tuple(_number(rate) for rate in rates)
  return (
    None if FLAGS.rule is None else acceptance.make_rule(FLAGS.rule, **settings)
  )


def _number(text: str) -> float:
  try:
    return float(text)
  except ValueError as error:
    raise ValueError(f"acceptance_rate: {text!r} is no number") from error


def use_compilation_cache(folder: str | None) -> None:
  """Keeps compiled programs in a folder; None is the default, "" is off."""
  if folder is None:
    folder = os.environ.get("JAX_COMPILATION_CACHE_DIR")
  if folder is None:
    folder = str(cache_folder() / "compiled")
  if not folder:
    jax.config.update("jax_enable_compilation_cache", False)
    return
  jax.config.update("jax_compilation_cache_dir", folder)
  jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)


def report(text: str) -> None:
  """A line of progress, for people."""
  print(text, file=sys.stderr, flush=True)
