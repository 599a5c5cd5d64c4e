"""OpenSSH's own programs on a folder of a test's own: what a person does with the names that a4 makes."""

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path

import pytest

LIMIT = 60.0


@dataclass(frozen=True, slots=True)
class Done:
    """What a program printed, and its exit code."""

    out: str
    err: str
    code: int


@dataclass(frozen=True, slots=True)
class OpenSsh:
    """ssh, scp, sftp and rsync, with the config of `folder` instead of ~/.ssh/config."""

    folder: Path

    @property
    def config(self) -> Path:
        return self.folder / "config"

    @property
    def known_hosts(self) -> Path:
        return self.folder / "a4" / "known_hosts"

    async def ssh(self, host: str, command: str, *options: str) -> Done:
        return await self.run("ssh", "-F", str(self.config), "-o", "BatchMode=yes", *options, host, command)

    async def scp(self, *paths: str) -> Done:
        return await self.run("scp", "-o", "LogLevel=ERROR", "-F", str(self.config), *paths)

    async def sftp(self, host: str, commands: str) -> Done:
        return await self.run("sftp", "-q", "-b", "-", "-F", str(self.config), host, typed=commands.encode())

    async def rsync(self, *arguments: str) -> Done:
        return await self.run("rsync", "-a", "-e", f"ssh -F '{self.config}'", *arguments)

    async def start(self, *command: str) -> asyncio.subprocess.Process:
        """A program that goes on, with pipes to it."""
        pipe = asyncio.subprocess.PIPE
        return await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=pipe)

    async def run(self, *command: str, typed: bytes = b"") -> Done:
        process = await self.start(*command)
        try:
            out, err = await asyncio.wait_for(process.communicate(typed), LIMIT)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        return Done(out.decode(), err.decode(), process.returncode or 0)


def alone(monkeypatch: pytest.MonkeyPatch, folder: Path) -> OpenSsh:
    """No agent, and a folder of the test's own in the place of ~/.ssh."""
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    monkeypatch.setenv("A4_SSH_FOLDER", str(folder))
    assert os.environ["A4_SSH_FOLDER"] == str(folder)
    return OpenSsh(folder)
