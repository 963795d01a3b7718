"""Questions of the published serving page."""

import pytest

from configs import roofline as config
from specjax.evaluation.roofline import question


@pytest.fixture
def ask():
  """A question of the default config, with settings changed."""

  def ask(**changes):
    return question.ask({**config.get_config().to_dict(), **changes})

  return ask
