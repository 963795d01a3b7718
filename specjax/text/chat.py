"""Chat templates: Jinja from the checkpoint, run in a sandbox."""

import datetime
import json
from collections.abc import Mapping, Sequence
from typing import Any

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment, SecurityError

from specjax.text.base import TextError

Messages = Sequence[Mapping[str, Any]]
_LIMIT = 1_000_000


def render(
  template: str,
  messages: Messages,
  add_generation_prompt: bool,
  variables: Mapping[str, Any],
) -> str:
  """Renders messages as transformers' `apply_chat_template` does.

  Raises:
    TextError: malformed messages, or a template that fails, refuses them or
      tries what the sandbox forbids.
  """
  messages = [_checked(message) for message in messages]
  if not messages:
    raise TextError("a chat needs at least one message")
  try:
    environment = _Sandbox()
    return environment.from_string(template).render(
      {
        **variables,
        "messages": messages,
        "add_generation_prompt": add_generation_prompt,
      }
    )
  except Exception as error:
    reason = str(error) or type(error).__name__
    raise TextError(f"the chat template failed: {reason}") from error


def _checked(message: Any) -> dict[str, Any]:
  if not isinstance(message, Mapping) or not isinstance(
    message.get("role"), str
  ):
    raise TextError(
      'each message must be {"role": ..., "content": ...}, got'
      f" {str(message)[:80]}"
    )
  if "content" not in message and "tool_calls" not in message:
    raise TextError(f"a message of role {message['role']!r} has no content")
  return dict(message)


class _Sandbox(ImmutableSandboxedEnvironment):
  """Forbids state, attributes outside the data, and runaway sizes."""

  intercepted_binops = frozenset({"*", "**"})

  def __init__(self):
    super().__init__(
      trim_blocks=True,
      lstrip_blocks=True,
      extensions=["jinja2.ext.loopcontrols"],
    )
    self.left = _LIMIT
    self.filters["tojson"] = _to_json
    functions: dict[str, Any] = {
      "raise_exception": _raise,
      "strftime_now": _now,
      "range": self._range,
    }
    self.globals.update(functions)

  def _range(self, *bounds: int) -> range:
    values = range(*bounds)
    self.left -= len(values)
    if self.left < 0:
      raise SecurityError(f"it loops over more than {_LIMIT} numbers")
    return values

  def call_binop(
    self, context: Any, operator: str, left: Any, right: Any
  ) -> Any:
    sizes = [
      len(value) if hasattr(value, "__len__") else abs(value)
      for value in (left, right)
    ]
    if operator == "**" or sizes[0] * sizes[1] > _LIMIT:
      raise SecurityError(f"it computes {operator!r} of large values")
    return super().call_binop(context, operator, left, right)


def _raise(message: str) -> None:
  raise jinja2.TemplateError(message)


def _now(form: str) -> str:
  return datetime.datetime.now().strftime(form)


def _to_json(
  value: Any,
  ensure_ascii: bool = False,
  indent: int | None = None,
  separators: tuple[str, str] | None = None,
  sort_keys: bool = False,
) -> str:
  return json.dumps(
    value,
    ensure_ascii=ensure_ascii,
    indent=indent,
    separators=separators,
    sort_keys=sort_keys,
  )
