"""Folders of one container: what is in them, and what is deleted there; by commands that run in it."""

from __future__ import annotations

import posixpath

from console.errors import BadInput, Conflict, ConsoleError
from console.files import scripts
from console.files.pod_files import LISTING, PodFiles, safe
from console.models.copying import EntryKind
from console.models.folder import PodFolder
from console.parsers.tree import tree


class PodFolders(PodFiles):
    """Lists and deletes."""

    async def listed(self, path: str) -> PodFolder:
        """What is in a folder; of a file: in that which it lies in. NotFound, NotAllowed."""
        what = f"list {path or 'the folder'}"
        out, complaint = await self._run(scripts.LIST, safe(path), what=what, path=path, limit=LISTING)
        where, _, rest = out.partition(b"\0")
        disk, _, entries = rest.partition(b"\0")
        amounts = [int(word) * 1024 for word in disk.split() if word.isdigit()]
        total, used, free = amounts if len(amounts) == 3 else (None, None, None)
        found = sorted(tree(entries), key=lambda each: (each.kind is not EntryKind.FOLDER, each.path))
        complaints = tuple(line.strip() for line in complaint.splitlines() if line.strip())
        return PodFolder(where.decode(errors="replace"), tuple(found), total, used, free, complaints)

    async def delete(self, path: str) -> None:
        """Delete a file, or a folder with all that is in it; a link goes, not what it leads to.

        BadInput for a path that is not whole or is a folder of the root; Conflict for one that is mounted.
        """
        whole = posixpath.normpath(path)
        if not path.startswith("/") or whole.count("/") < 2:
            raise BadInput(f"{path} is not deleted.", "Name a whole path, below a folder of the root: /data/tmp.")
        try:
            await self._run(scripts.DELETE, whole, what=f"delete {whole}", path=whole)
        except _Mounted as error:
            raise Conflict(
                f"{whole} in {self.where} is a mount, which is not deleted.", "Name what is in it."
            ) from error

    def _check(self, code: int | None, complaint: str, what: str, path: str) -> None:
        if code == scripts.MOUNTED:
            raise _Mounted(path)
        super()._check(code, complaint, what, path)


class _Mounted(ConsoleError):
    """Another file system begins there."""
