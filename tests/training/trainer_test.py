"""A training resumes bit by bit, stops by acceptance, and finds its faults."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from specjax import sharding
from specjax.training import logs, trainer
from specjax.training.checkpoints import Checkpoints
from specjax.training.optimizer import Optimizer
from specjax.training.plan import Plan
from specjax.training.trainer import NotFiniteError, Trainer
from specjax.training.types import Sum
from specjax.training.update import Update, put_batch
from tests.training.toy import AXES, FROZEN, VOCAB, Toy, batch_of

PLAN = Plan(
  steps=10,
  optimizer=Optimizer(learning_rate=0.05, warmup_steps=3),
  micro_batches=2,
  log_every=2,
  evaluate_every=4,
)
HELD_OUT = (batch_of(100), batch_of(101, rows=4))


def make(folder, batches=batch_of, plan=PLAN, trainee=None, **options):
  trainee = Toy() if trainee is None else trainee
  return Trainer(trainee, FROZEN, batches, HELD_OUT, plan, folder, **options)


def lines(folder):
  """The log without what a clock says."""
  found = logs.read(folder / logs.FILE)
  return [{k: v for k, v in x.items() if k not in logs.TIMES} for x in found]


def same(a, b):
  jax.tree.map(np.testing.assert_array_equal, a, b)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
  """(folder, what came out) of a training that nobody disturbed."""
  folder = tmp_path_factory.mktemp("whole")
  one = make(folder)
  return folder, one.run(), one


def test_it_learns_and_says_so(whole):
  folder, trained, _ = whole
  log = lines(folder)
  assert [x["step"] for x in log] == [0, 2, 4, 6, 8, 10]
  judged = [x for x in log if "acceptance" in x]
  assert [x["step"] for x in judged] == [0, 4, 8, 10]
  assert all(len(x["acceptance"]) == 2 for x in judged)
  rates = [x["acceptance"][0] for x in judged]
  assert rates[-1] > rates[0] + 0.05
  assert log[-1]["loss"] < log[1]["loss"]
  assert trained.acceptance == tuple(judged[-1]["acceptance"])
  first, second = trained.acceptance
  expected = 1 + first + first * second
  assert trained.acceptance_length == pytest.approx(expected, rel=1e-6)
  total = sum(int(batch_of(i).mask.sum()) for i in range(10))
  assert trained.positions == log[-1]["positions"] == total
  assert log[-1]["pairs"] == [log[-1]["loss"]]
  assert {p.name for p in folder.iterdir()} == {
    "acceptance.png",
    "checkpoints",
    "log.jsonl",
    "loss.png",
  }


class Killed(Exception):
  pass


def _killed_at(step):
  def batches(i):
    if i == step:
      raise Killed
    return batch_of(i)

  return batches


@pytest.mark.parametrize("at", [3, 4, 7, 9])
def test_a_killed_training_goes_on_bit_by_bit(tmp_path, whole, at):
  with pytest.raises(Killed):
    make(tmp_path, _killed_at(at)).run()
  again = make(tmp_path)
  trained = again.run()
  folder, expected, one = whole
  same(trained.params, expected.params)
  same(tuple(again._state), tuple(one._state))
  assert lines(tmp_path) == lines(folder)
  assert dataclasses.replace(trained, params=None, seconds=0.0) == (
    dataclasses.replace(expected, params=None, seconds=0.0)
  )


@pytest.mark.parametrize("call", [1, 2])
def test_a_kill_between_the_log_and_the_checkpoint(
  tmp_path, whole, monkeypatch, call
):
  calls, save = [], Checkpoints.save

  def killed(self, step, *rest):
    calls.append(step)
    if len(calls) == call:
      raise Killed
    save(self, step, *rest)

  with monkeypatch.context() as patched:
    patched.setattr(Checkpoints, "save", killed)
    with pytest.raises(Killed):
      make(tmp_path).run()
  trained = make(tmp_path).run()
  same(trained.params, whole[1].params)
  assert lines(tmp_path) == lines(whole[0])


def test_a_finished_training_is_read_and_not_run_again(whole):
  folder, expected, _ = whole
  trained = make(folder, _killed_at(0)).run()
  same(trained.params, expected.params)
  assert trained.seconds == expected.seconds


def test_the_optimizer_state_keeps_its_types(whole):
  folder, _, one = whole
  like = (one._state, one._course)
  found = one._checkpoints.restore(10, like)
  assert jax.tree.structure(found) == jax.tree.structure(like)
  for old, new in zip(
    jax.tree.leaves(like), jax.tree.leaves(found), strict=True
  ):
    assert type(old) is type(new) and old.dtype == new.dtype
  same(found, like)


def _after(batches, update, mesh=None, axes=None):
  """Weights and figures after some updates."""
  params = Toy().init(jax.random.key(0), FROZEN)
  state = update.init(params)
  options = {}
  if mesh is not None:
    places = trainer.state_shardings(update, state, axes, mesh)
    state = jax.device_put(state, places)
    options["out_shardings"] = (places, None)
  step, key = jax.jit(update, **options), jax.random.key(1)
  for batch in batches:
    batch = put_batch(batch, update.micro_batches, mesh)
    state, figures = step(state, FROZEN, batch, key)
  return state, figures


UPDATE = Update(Toy(), Optimizer(learning_rate=0.05, warmup_steps=0), steps=10)


@pytest.fixture(scope="module")
def plain():
  return _after([batch_of(i) for i in range(3)], UPDATE)


def close(a, b, rtol=1e-4, atol=1e-6):
  """Leaf by leaf: typed fields take nothing but arrays of the device."""
  for one, other in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
    np.testing.assert_allclose(one, other, rtol=rtol, atol=atol)


@pytest.mark.parametrize("parts", [2, 4, 8])
def test_splitting_a_batch_changes_nothing(plain, parts):
  update = dataclasses.replace(UPDATE, micro_batches=parts)
  got = _after([batch_of(i) for i in range(3)], update)
  close((got[0].params, got[1]), (plain[0].params, plain[1]))


@pytest.mark.parametrize("data, model", [(1, 1), (2, 1), (4, 1), (2, 2)])
def test_devices_change_nothing(plain, data, model):
  update = dataclasses.replace(UPDATE, micro_batches=2)
  mesh = sharding.make_mesh(data, model)
  got = _after([batch_of(i) for i in range(3)], update, mesh, AXES)
  close((got[0].params, got[1]), (plain[0].params, plain[1]))
  head = got[0].params["head"].sharding
  moment = got[0].optimizer[1][0].mu["head"].sharding
  assert head == moment
  assert head.shard_shape((VOCAB, 4)) == (VOCAB // model, 4)
  batch = put_batch(batch_of(0), 2, mesh)
  shard = batch.tokens.sharding.shard_shape(batch.tokens.shape)
  assert shard[0] == 8 // data


def test_a_sharded_training_resumes(tmp_path, whole):
  mesh = sharding.make_mesh(2, 2)
  with pytest.raises(Killed):
    make(tmp_path, _killed_at(5), mesh=mesh, axes=AXES).run()
  one = make(tmp_path, mesh=mesh, axes=AXES)
  trained = one.run()
  assert not one._state.params["head"].sharding.is_fully_replicated
  close(trained.params, whole[1].params, rtol=1e-3, atol=1e-5)


MUON = dataclasses.replace(
  PLAN,
  optimizer=Optimizer(method="muon", learning_rate=0.05, warmup_steps=3),
)


def test_muon_resumes_bit_by_bit_and_on_a_mesh(tmp_path):
  expected = make(tmp_path / "whole", plan=MUON).run()
  with pytest.raises(Killed):
    make(tmp_path / "killed", _killed_at(5), plan=MUON).run()
  same(make(tmp_path / "killed", plan=MUON).run().params, expected.params)
  mesh = sharding.make_mesh(2, 2)
  options = dict(plan=MUON, mesh=mesh, axes=AXES)
  with pytest.raises(Killed):
    make(tmp_path / "mesh", _killed_at(5), **options).run()
  one = make(tmp_path / "mesh", **options)
  close(one.run().params, expected.params, rtol=1e-2, atol=1e-3)
  assert not one._state.params["head"].sharding.is_fully_replicated
  places = jax.tree.leaves(one._state.optimizer)
  cut = [x for x in places if getattr(x, "shape", ()) == (VOCAB, 4)]
  assert len(cut) == 2  # one momentum of each matrix
  assert not any(x.sharding.is_fully_replicated for x in cut)


@pytest.mark.parametrize("at", [0, 4, 5])
def test_the_step_that_is_not_finite_is_named(tmp_path, at):
  def batches(i):
    return batch_of(i, spoilt=i == at)

  with pytest.raises(NotFiniteError, match=f"not finite at step {at + 1}:"):
    make(tmp_path, batches).run()
  assert Checkpoints(tmp_path / "checkpoints").steps()[-1] <= at


@dataclasses.dataclass(frozen=True)
class Worsening(Toy):
  """Its loss falls while its acceptance does too."""

  def acceptance(self, params, frozen, batch, temperature):
    found = super().acceptance(params, frozen, batch, temperature)
    return Sum(found.count - found.total, found.count)


def test_it_stops_by_acceptance_and_not_by_loss(tmp_path):
  plan = dataclasses.replace(PLAN, patience=2, keep=1, evaluate_every=2)
  trained = make(tmp_path, plan=plan, trainee=Worsening()).run()
  log = lines(tmp_path)
  assert trained.stopped_early and trained.steps == 4 and trained.step == 0
  assert log[-1]["held_out_loss"] < log[0]["held_out_loss"]
  assert log[-1]["acceptance"] < log[0]["acceptance"]
  assert Checkpoints(tmp_path / "checkpoints").steps() == [0, 4]
  key = jax.random.split(jax.random.key(0), 3)[0]
  same(trained.params, Toy().init(key, FROZEN))
  assert make(tmp_path, _killed_at(0), plan, Worsening()).run().steps == 4


@dataclasses.dataclass(frozen=True)
class Typed(Toy):
  """Refuses weights in another dtype than asked for."""

  def loss(self, params, frozen, batch, key):
    assert {x.dtype.name for x in jax.tree.leaves(params)} == {"bfloat16"}
    return super().loss(params, frozen, batch, key)


def test_bfloat16_multiplies_and_float32_remembers():
  update = dataclasses.replace(UPDATE, trainee=Typed(), dtype="bfloat16")
  state, _ = _after([batch_of(0), batch_of(1)], update)
  floats = [
    x for x in jax.tree.leaves(state) if jnp.issubdtype(x.dtype, jnp.floating)
  ]
  assert {x.dtype.name for x in floats} == {"float32"}


@pytest.mark.parametrize(
  "options, fault",
  [
    ({"steps": 0}, "steps must be at least 1"),
    ({"steps": 3}, "warmup_steps"),
    ({"dtype": "float16"}, "dtype must be"),
    ({"patience": 0}, "patience must be"),
    ({"temperature": -1.0}, "temperature must be"),
    ({"seed": -1}, "seed must be"),
  ],
)
def test_a_plan_is_checked(options, fault):
  with pytest.raises(ValueError, match=fault):
    dataclasses.replace(PLAN, **options)


def test_a_batch_that_does_not_divide_is_refused():
  with pytest.raises(ValueError, match="8 texts does not divide into 3"):
    put_batch(batch_of(0), 3, None)
  mesh = sharding.make_mesh(4, 1)
  with pytest.raises(ValueError, match="over 4 devices"):
    put_batch(batch_of(0), 4, mesh)


def test_something_must_be_held_out(tmp_path):
  with pytest.raises(ValueError, match="hold out"):
    Trainer(Toy(), FROZEN, batch_of, (), PLAN, tmp_path)
