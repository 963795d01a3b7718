"""Meshes and logical axes on 8 simulated devices; two processes on one host."""

import logging
import socket
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

from specjax import sharding


@pytest.fixture(autouse=True)
def _fresh_messages():
  sharding._replicated.cache_clear()


def test_mesh_axes_are_auto():
  mesh = sharding.make_mesh(4, 2)
  assert dict(mesh.shape) == {"data": 4, "model": 2}
  assert set(mesh.axis_types) == {jax.sharding.AxisType.Auto}


def test_mesh_takes_the_devices_given():
  devices = jax.devices()[5:7]
  mesh = sharding.make_mesh(2, 1, devices)
  assert mesh.devices.ravel().tolist() == devices
  assert sharding.make_mesh(2, 2).size == 4


@pytest.mark.parametrize("data, model", [(3, 3), (16, 1), (0, 1), (1, -1)])
def test_impossible_mesh(data, model):
  with pytest.raises(ValueError, match="devices and there are 8|at least 1"):
    sharding.make_mesh(data, model)


@pytest.mark.parametrize(
  "axes, shape, spec",
  [
    (("vocab", "embed"), (32, 6), P("model", None)),
    (("embed", "heads", None), (6, 4, 5), P(None, "model", None)),
    (("layers", "mlp", "embed"), (3, 8, 6), P(None, "model", None)),
    (("batch", "kv_heads", "sequence", None), (8, 2, 9, 4),
     P("data", "model", None, None)),
    (("mlp", "vocab"), (8, 8), P("model", None)),
    ((), (), P()),
  ],
)  # fmt: skip
def test_logical_axes(axes, shape, spec):
  mesh = sharding.make_mesh(4, 2)
  assert sharding.named_sharding(mesh, axes, shape).spec == spec


def test_rules_can_be_changed():
  mesh = sharding.make_mesh(4, 2)
  rules = sharding.Rules(embed="data", heads=None)
  out = sharding.named_sharding(mesh, ("embed", "heads"), (8, 4), rules)
  assert out.spec == P("data", None)


def test_an_axis_that_does_not_divide_is_replicated_with_one_message(caplog):
  mesh = sharding.make_mesh(4, 2)
  with caplog.at_level(logging.WARNING):
    for _ in range(3):
      out = sharding.named_sharding(mesh, ("heads", "mlp"), (9, 8))
      assert out.spec == P(None, "model")
  assert [r.getMessage() for r in caplog.records] == [
    "axis heads of size 9 is replicated: mesh axis model cuts it in 2"
  ]


def test_wrong_axes_are_named():
  mesh = sharding.make_mesh(4, 2)
  with pytest.raises(ValueError, match="unknown logical axis 'head'.*kv_heads"):
    sharding.named_sharding(mesh, ("head",), (8,))
  with pytest.raises(ValueError, match="name every dimension"):
    sharding.named_sharding(mesh, ("heads",), (8, 2))


def _params_and_axes():
  rng = np.random.default_rng(0)
  params = {
    "up": jnp.asarray(rng.normal(size=(6, 8)), jnp.float32),
    "down": jnp.asarray(rng.normal(size=(8, 6)), jnp.float32),
    "norm": {"scale": jnp.ones(6)},
  }
  axes = {
    "up": ("embed", "mlp"),
    "down": ("mlp", "embed"),
    "norm": {"scale": P("embed")},
  }
  return params, axes


def test_sharded_weights_and_rows_give_the_unsharded_result():
  mesh = sharding.make_mesh(4, 2)
  params, axes = _params_and_axes()
  sharded = sharding.shard_tree(params, axes, mesh)
  assert sharded["up"].sharding.spec == P(None, "model")
  assert sharded["down"].addressable_shards[0].data.shape == (4, 6)

  @jax.jit
  def apply(p, x):
    return jnp.tanh(x @ p["up"]) @ p["down"] * p["norm"]["scale"][None]

  x = jnp.arange(48.0).reshape(8, 6) / 48
  out = apply(sharded, sharding.shard_rows(x, mesh))
  np.testing.assert_allclose(out, apply(params, x), rtol=1e-5, atol=1e-6)
  shapes = {s.data.shape for s in out.addressable_shards}
  assert shapes == {(2, 6)}


def test_shardings_of_shapes_serve_jit():
  mesh = sharding.make_mesh(4, 2)
  params, axes = _params_and_axes()
  shapes = jax.eval_shape(lambda: params)
  out_shardings = sharding.tree_shardings(shapes, axes, mesh)
  made = jax.jit(lambda: params, out_shardings=out_shardings)()
  assert made["up"].sharding.spec == P(None, "model")


def _rows(batch):
  return {
    "tokens": jnp.arange(batch * 3).reshape(batch, 3),
    "key": jax.random.split(jax.random.key(0), batch),
    "layers": (jnp.zeros((batch, 2, 4)), None),
  }


def test_rows_are_cut_along_b_typed_keys_too():
  mesh = sharding.make_mesh(4, 2)
  rows = _rows(8)
  out = sharding.shard_rows(rows, mesh)
  for leaf in jax.tree.leaves(out):
    assert leaf.sharding.spec == P("data", *(None,) * (leaf.ndim - 1))
    assert leaf.addressable_shards[0].data.shape[0] == 2
  assert jnp.issubdtype(out["key"].dtype, jax.dtypes.prng_key)

  def draw(keys):
    return jax.vmap(lambda k: jax.random.uniform(k, 5))(keys)

  fresh = _rows(8)["key"]
  np.testing.assert_array_equal(jax.jit(draw)(out["key"]), draw(fresh))


def test_a_batch_that_does_not_divide_is_replicated(caplog):
  mesh = sharding.make_mesh(4, 2)
  with caplog.at_level(logging.WARNING):
    out = sharding.shard_rows(_rows(6), mesh)
  for leaf in jax.tree.leaves(out):
    assert leaf.sharding.is_fully_replicated
  assert [r.getMessage() for r in caplog.records] == [
    "axis batch of size 6 is replicated: mesh axis data cuts it in 4"
  ]


@pytest.mark.parametrize("bad", [jnp.zeros(()), jnp.zeros((4, 8))])
def test_a_leaf_without_rows_is_named(bad):
  mesh = sharding.make_mesh(4, 2)
  with pytest.raises(ValueError, match=r"\['odd'\].*with the 8 rows"):
    sharding.shard_rows({"a": jnp.zeros((8, 2)), "odd": bad}, mesh)


def test_distributed_arguments_come_together():
  with pytest.raises(ValueError, match="together, or none"):
    sharding.initialize_distributed("localhost:1234")
  with pytest.raises(ValueError, match=r"process_id 2 is not in 0\.\.1"):
    sharding.initialize_distributed("localhost:1234", 2, 2)


def test_distributed_after_first_use_of_jax():
  jax.devices()
  with pytest.raises(ValueError, match="before any other use of jax"):
    sharding.initialize_distributed("localhost:1234", 1, 0)


_PROCESS = """
import sys
import numpy as np
from specjax import sharding
sharding.initialize_distributed(sys.argv[1], 2, int(sys.argv[2]))
import jax
mesh = sharding.make_mesh(data=len(jax.devices()))
total = jax.jit(lambda x: x.sum())(sharding.shard_rows(np.arange(32), mesh))
print(jax.process_count(), mesh.size, int(total))
"""


def test_two_processes_share_one_mesh():
  with socket.socket() as free:
    free.bind(("localhost", 0))
    address = f"localhost:{free.getsockname()[1]}"
  processes = [
    subprocess.Popen(
      [sys.executable, "-c", _PROCESS, address, str(i)],
      stdout=subprocess.PIPE,
      stderr=subprocess.PIPE,
      text=True,
    )
    for i in range(2)
  ]
  try:
    for process in processes:
      out, err = process.communicate(timeout=120)
      assert process.returncode == 0, err
      assert out.splitlines()[-1] == "2 16 496"
  finally:
    for process in processes:
      process.kill()
