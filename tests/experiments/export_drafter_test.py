"""The command that takes drafters out and in, and what it refuses."""

import dataclasses
import json
import pathlib

import jax
import numpy as np
import pytest
from safetensors.numpy import load_file

from experiments import export_drafter
from specjax.checkpoints import published
from specjax.checkpoints.drafter_files import (
  DrafterFile,
  read_drafter,
  save_drafter,
)
from specjax.models.heads import Medusa
from tests.experiments.conftest import TINY


@pytest.fixture
def heads(tmp_path, tiny):
  """The folder of Medusa heads for the tiny target, in bfloat16."""
  net = Medusa(TINY.hidden_size, TINY.vocab_size, num_heads=2)
  rows = jax.ShapeDtypeStruct((net.vocab_size, net.hidden_size), np.float32)
  shapes = jax.eval_shape(net.init, jax.random.key(0), rows)
  random = np.random.default_rng(0)
  params = jax.tree.map(lambda leaf: random.normal(size=leaf.shape), shapes)
  file = DrafterFile(
    kind="medusa",
    settings=dataclasses.asdict(net),
    target=tiny,
    target_sizes=(net.vocab_size, net.hidden_size),
    params=params,
    notes={"dtype": "bfloat16"},
  )
  save_drafter(tmp_path / "heads", file, "float32")
  return str(tmp_path / "heads")


@pytest.fixture
def export(call_command):
  return lambda *argv: call_command(export_drafter.main, argv)


def test_out_and_in_again(export, heads, tiny, tmp_path):
  out, back = str(tmp_path / "out"), str(tmp_path / "back")
  status, said, error = export(
    f"--drafter_folder={heads}",
    "--format=medusa",
    f"--output={out}",
    "--target_name=org/tiny",
    "--storage=float32",
  )
  assert (status, said) == (0, f"wrote {out}\n"), error
  config = json.loads((pathlib.Path(out) / "config.json").read_text())
  assert config["base_model_name_or_path"] == "org/tiny"
  status, _, error = export(
    f"--from={out}", f"--model={tiny}", f"--output={back}"
  )
  assert status == 0, error
  first, second = read_drafter(heads), read_drafter(back)
  assert second.notes == {"format": "medusa", "dtype": "float32"}
  assert (first.settings, first.target) == (second.settings, second.target)
  jax.tree.map(np.testing.assert_array_equal, first.params, second.params)


def test_every_layout_is_offered():
  assert export_drafter._FORMATS == tuple(published.FORMATS)


def test_goes_out_in_the_type_that_it_came_in(export, heads, tmp_path):
  out = tmp_path / "out"
  argv = (f"--drafter_folder={heads}", "--format=vllm-medusa")
  assert export(*argv, f"--output={out}")[0] == 0
  types = {str(x.dtype) for x in load_file(out / "model.safetensors").values()}
  assert types == {"bfloat16"}


@pytest.mark.parametrize(
  "argv, fault",
  [
    ((), "give either --drafter_folder=FOLDER or --from=FOLDER"),
    (("--drafter_folder=A", "--from=B"), "give either"),
    (("--drafter_folder=A",), "give --output"),
    (("--drafter_folder=A", "--output=/"), "exists; give a new --output"),
    (("--drafter_folder=A", "--output=N"), "give --format, one of eagle3"),
    (
      ("--drafter_folder=A", "--output=N", "--format=eagle", "--target_name=a"),
      "eagle states no target",
    ),
    (
      ("--drafter_folder=A", "--output=N", "--format=eagle"),
      "A holds no drafter.json",
    ),
    (("--from=A", "--output=N", "--embeddings"), "--embeddings goes with"),
    (("--from=A", "--output=N", "--storage=float16"), "not float16"),
    (("--from=A", "--output=N"), "A holds no published drafter"),
  ],
)
def test_refused_in_one_line(export, argv, fault):
  status, out, error = export(*argv)
  assert (status, out) == (1, "")
  assert fault in error and error.count("\n") == 1


def test_a_drafter_of_another_kind_is_refused(export, heads, tmp_path):
  argv = (f"--drafter_folder={heads}", "--format=eagle3")
  _, _, error = export(*argv, f"--output={tmp_path / 'out'}")
  assert "holds medusa; eagle3 is for eagle3" in error
