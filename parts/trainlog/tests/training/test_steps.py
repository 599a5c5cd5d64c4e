"""Steps that are packed are the same steps as in a list, whatever is done with them."""

import math
import tracemalloc

import pytest
from hypothesis import given, settings, strategies as st

from trainlog.training import steps as module
from trainlog.training.steps import RunSteps, Step, pack_columns

NUMBERS = st.one_of(st.none(), st.floats(-1e6, 1e6), st.just(math.inf))


@st.composite
def values(draw: st.DrawFn, number: int | None) -> Step:
    extra = draw(st.sampled_from([(), ("acc",), ("acc", "mem")]))
    return Step(
        number,
        draw(st.sampled_from([None, 900])),
        draw(NUMBERS),
        draw(NUMBERS),
        skipped=draw(st.sampled_from([None, 0, 3])),
        nan=draw(st.booleans()),
        extra={name: draw(st.floats(-1e3, 1e3)) for name in extra},
    )


@pytest.mark.slow(reason="very many steps")
@settings(deadline=None)
@given(st.data())
def test_packed_steps_are_those_of_a_list(data: st.DataObject) -> None:
    module._PACKED_STEPS, before = 3, module._PACKED_STEPS
    try:
        compare(data)
    finally:
        module._PACKED_STEPS = before


def compare(data: st.DataObject) -> None:
    ours, known, number = RunSteps(), list[Step](), 0
    for _ in range(data.draw(st.integers(0, 30))):
        match data.draw(st.sampled_from(["append", "append", "append", "extend", "change", "insert", "cut"])):
            case "append":
                number += data.draw(st.integers(1, 3))
                step = data.draw(values(data.draw(st.sampled_from([None, number]))))
                ours.append(step)
                known.append(step)
            case "extend":
                more = [number + 1, number + 2]
                number += 2
                ours.extend(pack_columns({"step": more, "loss": [1.5, 2.5], " acc": [0.5, 0.25]}))
                known += [Step(more[0], loss=1.5, extra={"acc": 0.5}), Step(more[1], loss=2.5, extra={"acc": 0.25})]
            case "change" if known:
                at = data.draw(st.integers(-len(known), len(known) - 1))
                ours[at] = known[at] = known[at]._replace(loss=9.0)
            case "insert":
                at = data.draw(st.integers(0, len(known)))
                step = data.draw(values(None))
                ours.insert_step(at, step)
                known.insert(at, step)
            case "cut" if known:
                size = data.draw(st.integers(0, len(known)))
                ours.truncate(size)
                del known[size:]
    assert ours == known
    assert repr(ours) == repr(tuple(known))
    assert [ours[at] for at in range(-len(known), len(known))] == known + known
    start, stop = data.draw(st.integers(-9, 40)), data.draw(st.integers(-9, 40))
    assert (ours[start:stop], ours[::-2]) == (known[start:stop], known[::-2])
    places = {step.step: at for at, step in enumerate(known) if step.step is not None}
    assert {each: ours.index_of(each) for each in range(number + 2)} == {
        each: places.get(each) for each in range(number + 2)
    }


@pytest.mark.slow(reason="very many steps")
def test_a_hundred_thousand_steps_take_ten_megabytes() -> None:
    tracemalloc.start()
    steps = RunSteps(
        Step(n, 10**6, 2.5 + n, 1.5 * n, 1e-4, 0.5, None, 1e3 + n, extra={"mem": n / 7}) for n in range(100_000)
    )
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size < 10_000_000
    assert steps[77_777] == Step(77_777, 10**6, 77779.5, 116665.5, 1e-4, 0.5, None, 78_777.0, extra={"mem": 11111.0})
