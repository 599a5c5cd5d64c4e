from textual.app import App, ComposeResult

from console.kube.objects.event import Event
from screens.widgets.table.events import EventTable
from tests.screens.press import focus


class Holder(App[None]):
    def compose(self) -> ComposeResult:
        yield EventTable()


def events(*numbers: int) -> dict[tuple[str], Event]:
    return {(str(number),): Event("default", f"e{number}", message=f"event {number}") for number in numbers}


async def test_a_cursor_on_the_newest_event_stays_on_the_newest_and_another_on_its_own() -> None:
    app = Holder()
    async with app.run_test(size=(80, 10)) as pilot:
        table = app.query_one(EventTable)
        table.show_rows(events(2, 1))
        assert table.cursor == ("2",)
        table.show_rows(events(3, 2, 1))
        assert table.cursor == ("3",)
        await focus(pilot, table)
        await pilot.press("down")
        table.show_rows(events(4, 3, 2, 1))
        assert table.cursor == ("2",)
