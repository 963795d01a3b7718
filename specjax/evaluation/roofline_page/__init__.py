"""One page that answers the roofline's questions by itself, in a browser."""

import base64
import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2

from specjax.evaluation.roofline.cases import Case
from specjax.evaluation.roofline.question import Question
from specjax.theory.shapes import ModelShape, OnceShape

FILE = "roofline.html"
ARITHMETIC = "arithmetic.js"
_HERE = Path(__file__).parent
_HOUSE_STYLE = _HERE.parent / "report" / "style.css"


def case_json(case: Case) -> dict[str, Any]:
  """A case as `arithmetic.figures` takes it."""
  return {
    "target": dataclasses.asdict(case.target),
    "drafter": dataclasses.asdict(case.drafter),
    "device": dataclasses.asdict(case.device),
    "setup": dataclasses.asdict(case.setup),
    "conditional": list(case.conditional),
    **{
      name: getattr(case, name)
      for name in ("batch", "context", "new_tokens", "load", "memory_share")
    },
  }


def page_data(
  asked: Question, batches: Sequence[int], contexts: Sequence[int], longest: int
) -> dict[str, Any]:
  """What the page's script reads.

  Args:
    asked: what it opens with.
    batches, contexts, longest: that its sliders offer; see `study.study`.
  """
  case, recorded = asked.case, asked.recorded
  shape = "constant" if case.acceptance.ratio == 1 else "falling"
  if case.acceptance.recorded is not None:
    rates = [tuple(values) for values in recorded.values()]
    shape = f"recorded {rates.index(case.acceptance.recorded)}"
  return {
    "target": {"name": asked.target, "model": dataclasses.asdict(case.target)},
    "drafters": [
      {"name": name, "label": name, **dataclasses.asdict(drafter)}
      for name, drafter in asked.drafters.items()
    ],
    "devices": [
      {
        "name": name,
        "measured": name == asked.measured,
        **dataclasses.asdict(device),
      }
      for name, device in asked.devices.items()
    ],
    "setup": dataclasses.asdict(asked.reached),
    "measured": asked.measured,
    "memory_share": case.memory_share,
    "recorded": [
      {"name": name, "rates": list(rates)} for name, rates in recorded.items()
    ],
    "batches": list(batches),
    "contexts": list(contexts),
    "longest": max(longest, case.gamma),
    "initial": {
      "batch": case.batch,
      "context": case.context,
      "new_tokens": case.new_tokens,
      "gamma": case.gamma,
      "drafter": case.draft,
      "shape": shape,
      "first": case.acceptance.first,
      "ratio": case.acceptance.ratio,
      "device": case.place,
      "ways": case.setup.ways,
      "bits": case.setup.weight_bits,
      "load": case.load,
    },
  }


def render(data: Mapping[str, Any]) -> str:
  """The page: it loads nothing, and runs no script but its own."""
  style = _HOUSE_STYLE.read_text(encoding="utf-8") + own("page.css")
  script = own(ARITHMETIC) + own("page.js")
  target = ModelShape(**data["target"]["model"])
  models = [(data["target"]["name"], target)]
  for drafter in data["drafters"]:
    if drafter["model"] is not None:
      models.append((drafter["label"], ModelShape(**drafter["model"])))
    elif drafter["once"] is not None:
      models.append((drafter["label"], _one_token(drafter["once"])))
  made = jinja2.Environment(
    loader=jinja2.FileSystemLoader(_HERE),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
  )
  return made.get_template("page.html.jinja").render(
    data=data,
    models=models,
    target_values=target.cache_values,
    style=style,
    script=script,
    style_hash=_hash(style),
    script_hash=_hash(script),
  )


def _one_token(once: Mapping[str, int]) -> ModelShape:
  """Heads without a cache, as they guess one token."""
  shape = OnceShape(**once)
  read = shape.once + shape.each + shape.shared
  return ModelShape(read, read, 0, 1, 1, 1, 1)


def own(name: str) -> str:
  """Text of one of the page's files."""
  return (_HERE / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
  """What a Content-Security-Policy allows an inline element by."""
  digest = hashlib.sha256(text.encode()).digest()
  return "sha256-" + base64.b64encode(digest).decode()
