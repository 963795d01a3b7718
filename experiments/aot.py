"""Compiles the generation loop for a TPU that is not here.

pip install -e '.[tpu]'
python -m experiments.aot --topology=v4:2x2x1 --model=smollm2-135m --data=4
"""

import dataclasses
import json
import os

from absl import flags

from experiments import command

_TOPOLOGY = flags.DEFINE_string("topology", "v4:2x2x1", "TPU topology.")
_MODEL = flags.DEFINE_string("model", "smollm2-135m", "Preset to compile.")
_DRAFTER = flags.DEFINE_enum("drafter", "ngram", ["none", "ngram"], "Drafter.")
_K = flags.DEFINE_integer("num_speculative_tokens", 4, "Draft length.", 1)
_BATCH = flags.DEFINE_integer("batch", 4, "Rows.", 1)
_CAPACITY = flags.DEFINE_integer("capacity", 512, "Tokens a row.", 2)
_DATA = flags.DEFINE_integer("data", 4, "Parts of the rows.", 1)
_PARTS = flags.DEFINE_integer("model_parts", 1, "Parts of the weights.", 1)
_TEMPERATURE = flags.DEFINE_float("temperature", 0.0, "0 is greedy.", 0.0)
_DTYPE = flags.DEFINE_enum(
  "dtype", "bfloat16", ["bfloat16", "float32"], "Weights."
)
_JSON = flags.DEFINE_bool("json", False, "Print one JSON object.")


def main() -> None:
  """Prints what the compiler says of the loop."""
  os.environ.setdefault("JAX_PLATFORMS", "cpu")
  with command.interrupts_held():
    from specjax import acceptance, constraints, control, drafters, passes
    from specjax.evaluation import aot
    from specjax.models import decoder, presets
  config = presets.preset(_MODEL.value)
  config = dataclasses.replace(config, dtype=_DTYPE.value)
  drafter = (
    drafters.NGram(_K.value)
    if _DRAFTER.value == "ngram"
    else drafters.NoDraft()
  )
  engine = passes.Engine(
    model=decoder.Transformer(config),
    drafter=drafter,
    rule=acceptance.ExactMatch(),
    policy=control.Constant(),
    constraint=constraints.Stops((0,)),
  )
  program = aot.compile_loop(
    engine,
    _TOPOLOGY.value,
    batch=_BATCH.value,
    capacity=_CAPACITY.value,
    data=_DATA.value,
    model=_PARTS.value,
    temperature=_TEMPERATURE.value,
  )
  if _JSON.value:
    print(json.dumps(dataclasses.asdict(program)))
    return
  for name, value in dataclasses.asdict(program).items():
    print(f"{name:16} {value}")


if __name__ == "__main__":
  command.run(main)
