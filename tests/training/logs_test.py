"""Pictures of a training's log: which there are, and what they state."""

import pytest

from specjax.training import logs

LINES = [
  {"step": 0, "acceptance": [0.2, 0.1], "held_out_loss": 2.0},
  {"step": 5, "loss": 1.9},
  {"step": 10, "acceptance": [0.4, 0.3], "held_out_loss": 1.5, "loss": 1.6},
]


def test_a_log_has_its_pictures(tmp_path):
  names = ["loss.png", "acceptance.png"]
  assert logs.draw(LINES, 1.0, tmp_path) == [tmp_path / n for n in names]
  assert all((tmp_path / n).read_bytes()[:4] == b"\x89PNG" for n in names)
  assert logs.draw(LINES[1:2], 1.0, tmp_path) == [tmp_path / "loss.png"]
  assert logs.draw([], 1.0, tmp_path) == []


@pytest.mark.parametrize(
  "temperature, said", [(1.0, "T = 1"), (0.0, "T = 0"), (0.75, "T = 0.75")]
)
def test_acceptance_is_drawn_with_its_temperature(temperature, said):
  (axes,) = logs._acceptance(LINES, temperature).axes
  assert axes.get_title() == f"held out, {said}"
  depths = [line.get_ydata().tolist() for line in axes.lines]
  assert depths == [[0.2, 0.4], [0.1, 0.3]]
