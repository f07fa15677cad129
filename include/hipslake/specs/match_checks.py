"""What parts of a cross-match have to agree on, whether a spec or a program says them."""

from __future__ import annotations


def check_missing_margin(missing_margin: str, how: str) -> None:
    """An anti-match needs a margin; `ValueError` where it is to do without one."""
    if missing_margin == "none" and how == "anti":
        raise ValueError(
            "missing_margin: 'none' does not fit 'how: anti', which says that rows have no partner: over the "
            "borders of leaves nobody would have looked for one; take 'build', or 'how: left'"
        )


def check_epoch(epoch: float | None, motions: tuple[object | None, object | None]) -> None:
    """An epoch and motions need each other; `ValueError` where one is alone."""
    moving = [name for name, motion in zip(("left", "right"), motions, strict=True) if motion is not None]
    if moving and epoch is None:
        raise ValueError(
            f"epoch: the rows of the {' and the '.join(moving)} side move, but it does not say where to; "
            "give one, such as 2016.0"
        )
    if epoch is not None and not moving:
        raise ValueError(
            "epoch: no side has a motion, so nothing can be carried there; name its columns under motion, or "
            "leave the epoch out"
        )
