"""The user interface: Textual screens and plain commands.

- `app`, `session_app`: the application over one session, and what all its screens share.
- `pages`: one module for each page that a person can open.
- `job_tabs`: one module for each tab of a job's page.
- `dialogs`: questions, and the flows that ask them.
- `widgets`: the parts of pages: `table`, `form`, `log`, `charts`, and single ones.
- `columns`: the columns of each kind of row, on its page and by its command.
- `cli`: the plain commands, which import no Textual.
- `wording`: sentences that screens and commands share.
"""
