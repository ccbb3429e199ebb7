"""Files and folders that no other user can change: they hold executable code or trusted records.

A path is checked from the root.  Each folder on the path belongs to root or to this user, and no other user may write to it
unless it is sticky, as /tmp is: other users cannot rename foreign files there.  So no other user can replace a folder or link
after it was checked.  A group may write to such a folder if this user is its only member: many systems give each user a group of
their own, with write permission by default.  A file is checked after it is opened, and read through the same descriptor.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import stat
import sys
from pathlib import Path

#: The bits of a mode that let others write.
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
#: More links than this on one path are a cycle.
_MOST_LINKS = 40


class NotPrivate(OSError):
    """Another user can change this file or folder, or replace it."""


def check_folder(path: Path) -> Path:
    """Check a folder, which need not exist, and return ``path``.

    Raises NotPrivate unless it is this user's, and nobody else can write to it or replace a folder on the path to it; OSError.
    """
    if hasattr(os, "geteuid"):
        _, status = _resolve(path)
        if status is not None:
            _check(path, status)
    return path


def check_inside(path: Path) -> Path:
    """Check a file in a folder that ``check_folder`` has passed, and return ``path``; the file need not exist.

    Raises NotPrivate, also for a link; OSError.
    """
    if hasattr(os, "geteuid"):
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            _check(path, os.lstat(path))
    return path


def real_path(path: Path) -> Path:
    """The path of the file at ``path`` with all links resolved.

    Raises NotPrivate if another user could replace the file; OSError.
    """
    if not hasattr(os, "geteuid"):
        return path
    found, status = _resolve(path)
    if status is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    return found


def _resolve(path: Path) -> tuple[Path, os.stat_result | None]:
    """Check all folders on the path to ``path``; the resolved path, and the file's status if the file exists."""
    done, left, links = Path("/"), [*reversed(path.absolute().parts[1:])], 0
    status = os.lstat(done)
    while left:
        _check_ancestor(done, status)
        part = left.pop()
        if part == os.pardir:
            done = done.parent
            status = os.lstat(done)
            continue
        try:
            status = os.lstat(done / part)
        except (FileNotFoundError, NotADirectoryError):
            return done / part, None
        if not stat.S_ISLNK(status.st_mode):
            done = done / part
            continue
        links += 1
        if links > _MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
        if status.st_uid not in (0, os.geteuid()):
            raise NotPrivate(f"the link {done / part} belongs to another user")
        target = Path(os.readlink(done / part))
        done = Path("/") if target.is_absolute() else done
        left += reversed([p for p in target.parts if p != "/"])
        status = os.lstat(done)
    return done, status


def _check_ancestor(folder: Path, status: os.stat_result) -> None:
    if status.st_uid not in (0, os.geteuid()):
        raise NotPrivate(f"{folder}, in which it lies, belongs to another user")
    writers = status.st_mode & _OTHERS_WRITE
    if writers == stat.S_IWGRP and _is_own_group(status.st_gid, os.geteuid()):
        return
    if writers and not status.st_mode & stat.S_ISVTX:
        raise NotPrivate(f"other users may write to {folder}, in which it lies")


@functools.cache
def _is_own_group(group: int, user: int) -> bool:
    """Whether the group is the user's primary group, and nobody else is in it."""
    import grp
    import pwd

    try:
        account, members = pwd.getpwuid(user), set(grp.getgrgid(group).gr_mem)
    except KeyError:  # a number without a name
        return False
    others = any(other.pw_gid == group and other.pw_uid != user for other in pwd.getpwall())
    return account.pw_gid == group and members <= {account.pw_name} and not others


def _check(path: Path, status: os.stat_result, owners: tuple[int, ...] = ()) -> None:
    if stat.S_ISLNK(status.st_mode):
        raise NotPrivate(f"{path} is a link")
    if status.st_uid not in (os.geteuid(), *owners):
        raise NotPrivate(f"{path} belongs to another user")
    if status.st_mode & _OTHERS_WRITE:
        raise NotPrivate(f"other users may write to {path}")


def open_file(path: Path, flags: int = os.O_RDONLY) -> int:
    """Open an ordinary file of this user; the descriptor, which the caller closes.

    The caller checks the folder that holds the file.  Raises NotPrivate for a link, for anything else that is neither a file nor
    a folder, for another user's file, for a file that others may write to, or that has a second name; OSError.
    """
    return _open_checked(path, flags, (), 1)


def open_named(path: Path) -> int:
    """Open a file named by the user for reading: unlike ``open_file``, it may be a link, have several names, or be root's.

    All folders on the path to it are checked, too.
    """
    return _open_checked(real_path(path), os.O_RDONLY, (0,), sys.maxsize)


def _open_checked(path: Path, flags: int, owners: tuple[int, ...], names: int) -> int:
    # non-blocking: opening a pipe would wait for ever
    flags |= getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
    try:
        handle = os.open(path, flags, 0o600)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise NotPrivate(f"{path} is no ordinary file") from error
        raise
    try:
        status = os.fstat(handle)
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(status.st_mode):
            raise NotPrivate(f"{path} is no ordinary file")
        if hasattr(os, "geteuid"):
            _check(path, status, owners)
            if status.st_nlink > names:
                raise NotPrivate(f"{path} has a second name")
    except BaseException:
        os.close(handle)
        raise
    return handle
