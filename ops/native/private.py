"""Files and folders that no other user can change: what is read from them is run as code, or believed.

A path is gone through from the root.  Each folder on the way belongs to root or to this user, and no other user may write to it
unless it is sticky, as /tmp is: there others cannot rename what is not theirs.  So nobody else can put another folder or link in
the place of one that was looked at.  A group may write to such a folder if this user alone is in it: many systems give each user
a group, which may write to what the user makes.  A file is looked at when it is open, and read through the same descriptor.
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
#: More links than this on one way are a circle.
_MOST_LINKS = 40


class NotPrivate(OSError):
    """Another user can change this file or folder, or put another one in its place."""


def check_folder(path: Path) -> Path:
    """``path``, a folder that need not exist.  Raises NotPrivate unless it is this user's, and nobody else can write to it or
    replace a folder on the way to it; OSError."""
    if hasattr(os, "geteuid"):
        _, about = _way(path)
        if about is not None:
            _check(path, about)
    return path


def check_inside(path: Path) -> Path:
    """``path``, in a folder that ``check_folder`` has passed; it need not exist.  Raises NotPrivate, also for a link; OSError."""
    if hasattr(os, "geteuid"):
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            _check(path, os.lstat(path))
    return path


def real_path(path: Path) -> Path:
    """The path of the file at ``path`` with no links on the way.

    Raises NotPrivate where another user could put another file there; OSError.
    """
    if not hasattr(os, "geteuid"):
        return path
    found, about = _way(path)
    if about is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    return found


def _way(path: Path) -> tuple[Path, os.stat_result | None]:
    """Check all folders on the way to ``path``; where it is, and what is known about it, if it is there."""
    done, left, links = Path("/"), [*reversed(path.absolute().parts[1:])], 0
    about = os.lstat(done)
    while left:
        _check_on_the_way(done, about)
        part = left.pop()
        if part == os.pardir:
            done = done.parent
            about = os.lstat(done)
            continue
        try:
            about = os.lstat(done / part)
        except (FileNotFoundError, NotADirectoryError):
            return done / part, None
        if not stat.S_ISLNK(about.st_mode):
            done = done / part
            continue
        links += 1
        if links > _MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
        if about.st_uid not in (0, os.geteuid()):
            raise NotPrivate(f"the link {done / part} belongs to another user")
        target = Path(os.readlink(done / part))
        done = Path("/") if target.is_absolute() else done
        left += reversed([p for p in target.parts if p != "/"])
        about = os.lstat(done)
    return done, about


def _check_on_the_way(folder: Path, about: os.stat_result) -> None:
    if about.st_uid not in (0, os.geteuid()):
        raise NotPrivate(f"{folder}, in which it lies, belongs to another user")
    writers = about.st_mode & _OTHERS_WRITE
    if writers == stat.S_IWGRP and _is_own_group(about.st_gid, os.geteuid()):
        return
    if writers and not about.st_mode & stat.S_ISVTX:
        raise NotPrivate(f"other users may write to {folder}, in which it lies")


@functools.cache
def _is_own_group(group: int, user: int) -> bool:
    """Whether the group is the user's first one, and nobody else is in it."""
    import grp
    import pwd

    try:
        about, members = pwd.getpwuid(user), set(grp.getgrgid(group).gr_mem)
    except KeyError:  # a number without a name
        return False
    others = any(other.pw_gid == group and other.pw_uid != user for other in pwd.getpwall())
    return about.pw_gid == group and members <= {about.pw_name} and not others


def _check(path: Path, about: os.stat_result, owners: tuple[int, ...] = ()) -> None:
    if stat.S_ISLNK(about.st_mode):
        raise NotPrivate(f"{path} is a link")
    if about.st_uid not in (os.geteuid(), *owners):
        raise NotPrivate(f"{path} belongs to another user")
    if about.st_mode & _OTHERS_WRITE:
        raise NotPrivate(f"other users may write to {path}")


def open_file(path: Path, flags: int = os.O_RDONLY) -> int:
    """A descriptor of an ordinary file of this user's, which the caller closes.

    The caller checks the folder that holds the file.  Raises NotPrivate for a link, for anything else that is no file or
    folder, for another user's file, for one that others may write to, or that has a second name; OSError.
    """
    return _opened(path, flags, (), 1)


def open_given(path: Path) -> int:
    """The same for a file that the user has named, to be read: it may be a link, have several names, or be root's.

    All folders on the way to it are checked, too.
    """
    return _opened(real_path(path), os.O_RDONLY, (0,), sys.maxsize)


def _opened(path: Path, flags: int, owners: tuple[int, ...], names: int) -> int:
    # without waiting: a pipe would never open
    flags |= getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
    try:
        handle = os.open(path, flags, 0o600)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise NotPrivate(f"{path} is no ordinary file") from error
        raise
    try:
        about = os.fstat(handle)
        if stat.S_ISDIR(about.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(about.st_mode):
            raise NotPrivate(f"{path} is no ordinary file")
        if hasattr(os, "geteuid"):
            _check(path, about, owners)
            if about.st_nlink > names:
                raise NotPrivate(f"{path} has a second name")
    except BaseException:
        os.close(handle)
        raise
    return handle
