import asyncio
import gc
import warnings

import pytest

from console.google.node_pools import _request_or_default


@pytest.mark.slow(reason="the practice cluster's Google services and a whole console")
async def test_who_leaves_before_it_was_asked_leaves_no_question_behind() -> None:
    async def ask() -> None:
        raise AssertionError("nobody waits for the answer")

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        asking = asyncio.create_task(_request_or_default(None, {}, "operations", ask))
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        gc.collect()
