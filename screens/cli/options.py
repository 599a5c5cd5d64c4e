"""What was typed after `a4`: every option of every command as a field of one structure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from console.settings import Settings

if TYPE_CHECKING:
    from pathlib import Path

    from console.metrics.gpu import Source


@dataclass(frozen=True, slots=True)
class Options:
    """What was typed, every option at its default where it was not."""

    command: str = ""
    """Empty: the console itself."""
    kubeconfig: Path | None = None
    context: str = ""
    namespace: str = ""
    all_namespaces: bool = False
    mine: bool = False
    """Only jobs that the account launched that asks."""
    read_only: bool = False
    demo: bool = False
    demo_speed: float | None = None
    """None: as fast as life, and the tour faster."""
    seed: int = 0
    json: bool = False
    recipe: str = ""
    name: str = ""
    set: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    """Values files, "-" for standard input."""
    queue: str | None = None
    """A LocalQueue, "none" for none; None: not said."""
    dry_run: bool = False
    against: str | None = None
    """None: no difference is asked for; empty: from the defaults; else from that run."""
    show_helm: bool = False
    preflight: bool = True
    """Whether a launch is looked at first."""
    wait: bool = False
    job: str = ""
    rank: int | None = None
    rank_text: str = ""
    """A rank as it was written: a number, or REPLICATED/INDEX."""
    every_rank: bool = False
    ranks: str = ""
    """Ranks as they were written, such as 0-3,7."""
    container: str = ""
    at_once: int = 16
    limit: float | None = None
    """Seconds."""
    lines: bool = False
    grouped: bool = False
    tmux: bool = True
    sources: tuple[str, ...] = ()
    target: str = ""
    recursive: bool = False
    by: str = ""
    jobs: tuple[str, ...] = ()
    identity: Path | None = None
    share: bool | None = None
    """None: as it was."""
    yes: bool = False
    run: str = ""
    """A run that is remembered: its number, or a name."""
    diff: tuple[str, ...] = ()
    forgotten: tuple[str, ...] = ()
    like: str = ""
    profile: str = ""
    no_profile: bool = False
    unset: tuple[str, ...] = ()
    by_default: bool | None = None
    """None: not said."""
    delete: bool = False
    leftovers: bool = False
    data: bool = False
    csv: bool = False
    first_size: str = "1M"
    last_size: str = "1G"
    test_gpus: int = 0
    svg: str = ""
    """A file, "-" for standard output; empty: no picture."""
    compare: str = ""
    pass_line: float | None = None
    """GB/s; None: as it is set up."""
    history: bool = False
    by_node: bool = False
    earlier: bool = False
    words: tuple[str, ...] = ()
    """Of `forward`: job, rank and ports; of `tunnels`: names."""
    background: bool = False
    save: str = ""
    action: str = "list"
    revision: int | None = None
    quiet: bool = False
    write_config: bool = False
    forget: bool = False
    undo: bool = False
    editor: str = ""
    at: str = ""
    """A folder in a pod."""
    follow: bool = False
    all: bool = False
    since: str = ""
    grep: str = ""
    raw: bool = False
    level: str = ""
    consensus: bool = False
    tail: int | None = None
    previous: bool = False
    stdin: bool = False
    projects: tuple[str, ...] = ()
    """Of Google Cloud."""
    via: str = ""
    write_kubeconfig: str | None = None
    """None: no; empty: where kubectl looks; else that file."""
    pool: str = ""
    nodes: int | None = None
    limits: str = ""
    node: str = ""
    fault: str = ""
    argv: tuple[str, ...] = ()
    install: bool = False
    record: float = 0.0
    """Seconds of a flame graph; 0: none."""
    out: str = ""
    facts_of: str = ""
    metric: str = "utilization"
    source: Source = ""
    listen: float = 15.0
    """Seconds for which alarms are listened for."""
    until: tuple[str, ...] = ()
    timeout: float | None = None
    ignore_alarms: bool = False
    without: str = ""
    silent: float | None = None
    stall: float | None = None
    behind: int | None = None
    busbw: float | None = None
    folder: Path | None = None
    checks: tuple[str, ...] = ()
    """Of `preflight`: those to look at; none named means all."""
    bucket: str = ""
    registry: str = ""
    mend: str = ""
    region: str = ""
    machine: str = ""
    time_out: str = ""
    """As it was written: "2h", "90m", seconds."""
    place: str = ""
    """gs://BUCKET/FOLDER."""
    most: int = 50
    replace: bool = False
    looks: bool = False
    file: str = ""
    """A log to read, "-" for standard input."""
    check: bool = False

    def settings(self, kubeconfig: Path | None = None) -> Settings:
        """How to reach the cluster; `kubeconfig` is the practice cluster's, when there is one."""
        return Settings(
            kubeconfig=kubeconfig or self.kubeconfig,
            context="" if kubeconfig else self.context,
            namespace=self.namespace,
            read_only=self.read_only,
            practice=self.demo,
            speed=self.demo_speed or 1.0 if self.demo else 1.0,
        )
