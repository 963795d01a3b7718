"""Checks that the output is plain decoding's, token for token."""

import numpy as np

from specjax.testing import cases, runs
from specjax.testing.cases import GREEDY, SETTINGS, Case, NotApplicable
from specjax.testing.drivers import Recital
from specjax.testing.oracle import greedy_walk
from specjax.types import ACCEPTED, DRAFTED, Drafter, Params

DEPTHS = tuple(range(1, 9))
_NEW = 24
_NETS = 16  # rows, always the same number: one program serves all checks
WIDE = 208  # a multiple of 8, so that devices divide it


def assert_same_tokens(got, wanted, what: str) -> None:
  """Fails at the first row of `got` whose tokens differ from `wanted`'s."""
  for row in range(len(wanted.length)):
    ours, theirs = runs.new_tokens(got, row), runs.new_tokens(wanted, row)
    assert ours == theirs, f"{what}, row {row}: {ours} is not {theirs}"


def offsets_seen(rows, drafter: Drafter) -> dict[tuple[int, int], int]:
  """{(depth drafted, accepted): rounds} of rows on the host."""
  ran = np.arange(rows.history.shape[1])[None] < rows.rounds[:, None]
  pairs = rows.history[ran][:, [DRAFTED, ACCEPTED]]
  pairs[:, 0] = cases.depth_of_count(drafter)[pairs[:, 0]]
  values, counts = np.unique(pairs, axis=0, return_counts=True)
  return {
    (int(d), int(a)): int(n)
    for (d, a), n in zip(values, counts, strict=True)
    if d
  }


def assert_every_offset(
  rows, drafter: Drafter, depths, what: str, least: int = 1
) -> None:
  """Fails unless drafts of each depth were refused at every offset, and kept
  whole, `least` times each."""
  seen = offsets_seen(rows, drafter)
  missing = [
    (d, a) for d in depths for a in range(d + 1) if seen.get((d, a), 0) < least
  ]
  assert not missing, (
    f"{what}: (drafted, accepted) seen fewer than {least} times:"
    f" {[(pair, seen.get(pair, 0)) for pair in missing]}"
  )


def forcing_prompts(table, vocab_size: int, seed: int = 5):
  """(prompts, budgets) whose repeated words foretell exactly k tokens.

  s w1 ... wk x fill s      the target goes on with w1 ... w8 after s, x is
                            another token than the next w
  """
  rng = np.random.default_rng(seed)
  prompts, budgets = [], []
  for depth in DEPTHS:
    for right in range(depth + 1):
      suffix = rng.integers(0, vocab_size, 3).tolist()
      walk = greedy_walk(table, suffix, right + 1)
      wrong = (walk[right] + 1) % vocab_size
      fill = rng.integers(0, vocab_size, 9).tolist()
      prompts.append([*suffix, *walk[:right], wrong, *fill, *suffix])
      budgets.append(depth)
  return prompts, budgets


def wide_requests(table, vocab_size: int):
  """Prompts and options of the checks on the wide table."""
  prompts, budgets = forcing_prompts(table, vocab_size)
  more = WIDE - len(prompts)
  lengths = [3 + i % 8 for i in range(more)]
  prompts += cases.random_prompts(6, vocab_size, lengths)
  budgets += [DEPTHS[i * len(DEPTHS) // more] for i in range(more)]
  return prompts, dict(new=_NEW, size=56, max_draft=budgets)


def net_requests(vocab_size: int):
  """Prompts and options of the checks on a transformer."""
  lengths = [3 + i for i in range(_NETS)]
  prompts = cases.random_prompts(9, vocab_size, lengths)
  return prompts, dict(new=72, size=96, max_draft=[*DEPTHS, *DEPTHS])


def greedy_tables(case: Case) -> str:
  """Greedy output is the oracle's and plain decoding's; depths 1 to 8."""
  model, target = cases.wide_world()
  table = np.asarray(target["table"])
  prompts, options = wide_requests(table, model.vocab_size)
  wanted = cases.plain(model, target, prompts, **options)
  for row, prompt in enumerate(prompts):
    walk = greedy_walk(table, prompt, _NEW)
    assert runs.new_tokens(wanted, row) == walk, f"plain decoding, row {row}"
  engine = case.engine(model, max(DEPTHS))
  got = runs.run(engine, case.params(model, target), prompts, **options)
  assert_same_tokens(got, wanted, "greedy")
  if case.reaches_all:
    assert_every_offset(got, engine.drafter, DEPTHS, "greedy")
  return f"{len(prompts)} rows, {int(got.rounds.sum())} rounds"


def greedy_alone(case: Case) -> str:
  """Greedy output where no filter is traced and one token is drafted."""
  model, target = cases.wide_world()
  prompts = cases.random_prompts(8, model.vocab_size, [9] * 16)
  options = dict(new=_NEW, size=40, filters=())
  wanted = cases.plain(model, target, prompts, **options)
  params = case.params(model, target)
  got = runs.run(case.engine(model, 1), params, prompts, **options)
  assert_same_tokens(got, wanted, "depth 1")
  return f"{int(got.rounds.sum())} rounds"


def greedy_nets(case: Case) -> str:
  """Greedy output of a transformer; depths 1 to 8."""
  model, target = cases.net_world()
  prompts, options = net_requests(model.vocab_size)
  wanted = cases.plain(model, target, prompts, **options)
  engine = case.engine(model, max(DEPTHS))
  got = runs.run(engine, case.params(model, target), prompts, **options)
  assert_same_tokens(got, wanted, "greedy")
  return f"{int(got.rounds.sum())} rounds"


def _recite(case: Case, settings) -> str:
  if "chain" not in case.rule.supports:
    raise NotApplicable("the rule judges no chains")
  model, target = cases.net_world()
  prompts, options = net_requests(model.vocab_size)
  options |= dict(settings=settings)
  wanted = cases.plain(model, target, prompts, **options)
  engine = runs.make_engine(model, Recital(max(DEPTHS)), case.rule)
  params = Params(target, {"text": wanted.tokens})
  got = runs.run(engine, params, prompts, **options)
  assert_same_tokens(got, wanted, "recited")
  assert_every_offset(got, engine.drafter, DEPTHS, "recited")
  return f"{int(got.rounds.sum())} rounds"


def greedy_nets_every_offset(case: Case) -> str:
  """Greedy output of a transformer, refused at every offset in turn."""
  return _recite(case, GREEDY)


def _mixed(number: int):
  hot = (cases.Setting(temperature=1.5), GREEDY, *SETTINGS)
  return [hot[i % len(hot)] for i in range(number)]


def exact_tables(case: Case) -> str:
  """At any temperature the tokens are plain decoding's."""
  if not case.is_exact_match:
    raise NotApplicable("the rule keeps the law, not the tokens")
  model, target = cases.wide_world()
  prompts, options = wide_requests(
    np.asarray(target["table"]), model.vocab_size
  )
  options |= dict(settings=_mixed(len(prompts)))
  wanted = cases.plain(model, target, prompts, **options)
  engine = case.engine(model, max(DEPTHS))
  got = runs.run(engine, case.params(model, target), prompts, **options)
  assert_same_tokens(got, wanted, "exact match")
  return f"{len(prompts)} rows, {int(got.rounds.sum())} rounds"


def exact_nets(case: Case) -> str:
  """The same on a transformer, refused at every offset in turn."""
  if not case.is_exact_match:
    raise NotApplicable("the rule keeps the law, not the tokens")
  return _recite(case, _mixed(16))


def fewest_rounds(case: Case) -> str:
  """A draft that is right is kept whole, in the fewest rounds."""
  model, target = cases.cyclic_world()
  prompts = [[i % 11 for i in range(14 + r % 8)] for r in range(WIDE)]
  budgets = np.asarray([DEPTHS[r % 8] for r in range(WIDE)])
  options = dict(new=_NEW, size=56, max_draft=budgets)
  engine = case.engine(model, max(DEPTHS))
  params = case.params(model, target, best=True)
  got = runs.run(engine, params, prompts, **options)
  _assert_fewest(got, _NEW, budgets, "circle")
  if not case.draws_like_target:
    return "circle"
  model, target = cases.net_world()
  engine = case.engine(model, max(DEPTHS))
  params = case.params(model, target, best=True)
  prompts, options = net_requests(model.vocab_size)
  for setting in (GREEDY,) if case.is_exact_match else (GREEDY, SETTINGS[0]):
    got = runs.run(engine, params, prompts, settings=setting, **options)
    budgets = np.asarray(options["max_draft"])
    _assert_fewest(got, options["new"], budgets, f"transformer, {setting}")
  return "circle and transformer"


def _assert_fewest(rows, new: int, budgets, what: str) -> None:
  fewest = -(-new // (budgets + 1))
  assert rows.rounds.tolist() == fewest.tolist(), (
    f"{what}: rounds {rows.rounds.tolist()}, fewest {fewest.tolist()}"
  )
