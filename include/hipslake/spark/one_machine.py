"""Whether the executors of a cluster are processes of the driver's machine, and see its folder."""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass
from pathlib import Path

from pyspark import SparkContext

_BOOT = Path("/proc/sys/kernel/random/boot_id")  # drawn by a kernel when it starts
_NAME = "seen-by-all"


@dataclass(frozen=True)
class FolderMark:
    """A file in a folder: by it a process tells whether it may work in that very folder, on the same machine.

    Containers of one machine have its kernel's id in common: there the file tells. Virtual machines that were
    copied while they ran have it in common too, and a shared disk: what is closed on one of them is then read
    whole on the other.

    Attributes
    ----------
    path : str
    token : str
        Random; what the file holds.
    boot : str
        The id that the machine's kernel has drawn; "" where it draws none, and then nobody sees the mark.
    """

    path: str
    token: str
    boot: str

    @classmethod
    def put(cls, folder: Path) -> FolderMark:
        """Mark a folder that there is."""
        mark = cls(str(folder / _NAME), secrets.token_hex(16), _boot_id())
        Path(mark.path).write_text(mark.token)
        return mark

    def seen(self) -> bool:
        """Whether this process is on the machine where the mark was put, sees it, and may write beside it.

        It has to be the same user's: what another writes there, the driver could not remove.
        """
        if not self.boot or self.boot != _boot_id():
            return False
        mark = Path(self.path)
        try:
            return (
                mark.read_text() == self.token
                and mark.stat().st_uid == os.geteuid()
                and os.access(mark.parent, os.W_OK | os.X_OK)
            )
        except (OSError, UnicodeDecodeError):
            return False


def executors_at_one_address(context: SparkContext) -> bool:
    """Whether there are executors, all at the same address, and no others are to come.

    Asked first, since it costs nothing: where it is not so, no mark need be put.
    """
    if str(context.getConf().get("spark.dynamicAllocation.enabled", "false")).lower() == "true":
        return False
    scala = context._jsc.sc()
    driver = scala.env().blockManager().blockManagerId().hostPort()
    known = scala.getExecutorMemoryStatus().keySet().mkString(" ").split()
    return len({address.rsplit(":", 1)[0] for address in known if address != driver}) == 1


def _boot_id() -> str:
    try:
        return _BOOT.read_text().strip()
    except OSError:
        return ""
