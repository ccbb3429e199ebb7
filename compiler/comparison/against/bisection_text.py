"""The search for a pass as text."""

from __future__ import annotations

from .node_text import kind_text, verdict
from .pass_bisection import Culprit, PassBisection


def bisection_text(found: PassBisection) -> str:
    """The pass, the functions that it changed, the largest difference, and the setting that leaves it out."""
    own, other = found.names
    lines = [f"{found.file}: {own} against {other}, {found.count} passes"]
    lines += [f"result {e.value.name}, {kind_text(e)}: {verdict(e)}" for e in found.results]
    if found.culprit is not None:
        lines += _culprit(found.culprit, found.count)
    elif found.always:
        lines.append(
            "the results differ without any optional pass, too: by the import, a kernel, or a pass that every program needs"
        )
        lines.append("without --bisect the command names the node")
    else:
        lines.append("the results agree: there is no pass to look for")
    if found.untested:
        lines.append(f"not tried, since the program does not compile: to stop after {', '.join(found.untested)}")
    lines.append(f"{found.tried} program{'' if found.tried == 1 else 's'} compiled")
    return "\n".join(lines)


def _culprit(c: Culprit, count: int) -> list[str]:
    changed = ", ".join(f"@{name}" for name in c.functions) or "no function"
    kind = f"{c.error.value.name}, {kind_text(c.error)}"
    then = "the results then agree" if c.suffices else "the results differ then, too: other passes do the same"
    return [
        f"the results differ first after pass {c.position} of {count}, {c.name}, which changed {changed}",
        f"    {kind}, after it: {verdict(c.error)}",
        f"    {kind}, before it: {verdict(c.before)}",
        f"leave it out: --config {c.setting} ({then})",
    ]
