"""Starts the keeper, as `python -I -S __main__.py FOLDER CGROUP CONTROL CONTROLLER GUARD...`: where the folders of
commands are made, the control group to use if not our own, and from there on file descriptors.

With these flags Python can't import rota; the folder is a package by itself, `keeper`. It is started by this file and
not by the folder's name, because that would load `runpy` and cost 0.7 MB.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rota.work.keeper.loop import main
else:
    # Last, so that no file of ours hides a module of the standard library.
    sys.path.append(os.path.dirname(os.path.dirname(__file__)))
    from keeper.loop import main

if __name__ == "__main__":
    main(sys.argv[1:])
