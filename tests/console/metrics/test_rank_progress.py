"""Which step a rank is at, from whatever its program prints."""

import pytest

from console.metrics.job_measures import RankProgress
from tests.apiserver import eventually
from tests.fakes import FakeSession
from tests.screens.queue_scene import queue_scene
from trainlog import parse_step


@pytest.mark.parametrize(
    ("line", "step"),
    [
        (" [2026-11-21 07:00:00] iteration       20/     100 | consumed samples: 1 | lm loss: 1.0E+00 |", (20, 0)),
        ("{'loss': 0.7, 'grad_norm': 0.4, 'iteration': '60/100', 'elapsed_time': '8m 2s'}", (60, 0)),
        ("{'loss': 0.7, 'global_step/max_steps': '10/94', 'train_speed(s/it)': 3.2}", (10, 0)),
        ("Train:  10%|#         | 12/120 [00:10<01:30,  1.02it/s]", (12, 120)),
        (" 50%|#####     | 6/12 [00:10<01:30,  1.02s/it]", (6, 12)),
        ("Epoch 0: 3%|3 | 4/100 [00:10<01:30, 1.02it/s, loss=2.3, v_num=0]", (4, 0)),
        ("Downloading shards:  10%|#         | 1/12 [00:10<01:30,  1.02it/s]", None),
        ("completed step: 7, seconds: 2.1, TFLOP/s/device: 700.1", (7, 0)),
        ("step_time 0.3 s, a step took 12 ms", None),
        ("{'loss': 0.7, 'epoch': 0.5}", None),
        ("nothing at all", None),
    ],
)
def test_a_line_says_its_step(line: str, step: tuple[int, int] | None) -> None:
    assert parse_step(line) == step


def test_an_evaluation_in_between_is_no_step_back() -> None:
    pulse = RankProgress()
    pulse.add_line(0, 1.0, " 50%|#####     | 60/120 [00:10<01:30,  1.02it/s]")
    pulse.add_line(1, 1.0, " 50%|#####     | 60/120 [00:10<01:30,  1.02it/s]")
    pulse.add_line(1, 2.0, " 10%|#         | 1/12 [00:01<00:30,  1.02it/s]")
    assert (pulse.steps_behind(0), pulse.steps_behind(1)) == (0, 0)
    assert pulse.last_line_at == {0: 1.0, 1: 2.0}


@pytest.mark.slow(reason="reads a long log with progress bars")
async def test_a_bar_that_is_drawn_is_a_sign_of_life() -> None:
    session = FakeSession(queue_scene())
    first, second = (f"llama-workload-0-{rank}-x7k{rank}" for rank in range(2))
    session.say(first, "step 9", at=100.0)
    session.say(second, "begins", at=100.0)
    heard: list[str] = []
    async with session.measures.open_job("default", "llama") as job:
        await eventually(lambda: job.ranks.steps == {0: 9} and job.ranks.last_line_at.get(1) == 100.0)
        with job.subscribe_lines(lambda now, text, printed: heard.append(text)):
            assert heard == ["step 9", "begins"], "who comes later is told what was printed lately"
            session.draw(second, "Train:   3%|#         | 3/120 [00:10<01:30,  1.02s/it]")
            await eventually(lambda: job.ranks.steps == {0: 9, 1: 3})
        assert job.ranks.steps_behind(1) == 6
        assert job.ranks.last_line_at[1] > 100.0
        assert len(heard) == 3
