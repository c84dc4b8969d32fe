"""The keeper: a small process, one per node, above every command the node runs.

Nothing that a node starts may outlive the node's right to run it. A controller that is killed, stopped or cut
off can't clean up after itself, so another process must, which is awake whatever happens to the controller:

    controller (rota node) ---socket---> keeper ---socket---> warden ---exec---> command ---> its processes
              <----------------- report pipe, one per command -----'

A *warden* runs one command at a time. It is a child subreaper: a process below it that loses its parent (double fork,
setsid, nohup) becomes the warden's child and not init's. So the warden has children exactly as long as a process of the
tree is left, and the kernel tells it that. Only when none is left, the warden reports the command's end; then it is
reused for the next command, since a fork of Python costs more than most commands.

Deaths, and the processes that notice them:
  - the controller is gone (end of file, or its pidfd): the keeper has the wardens kill their trees and exits;
    they do so by themselves, too, in case the keeper was stopped.
  - the lease deadline passes (boot-time clock): the same, and then the keeper kills the controller, because
    functions that run inside it can't be stopped in any other way.
  - the keeper is gone (end of file, or the parent-death signal): the wardens kill their trees and exit.
  - a warden is gone (its command can kill it): the tree falls to the keeper, a subreaper too, to be killed.
  - no process is responsible for a tree any more: the last copy of its report pipe closes; the controller sees that.
Keeper and wardens hold the guard files (the node's lock) open while they live; commands never do. So the lock is free
only when everything that ran under it is gone. If a node replaces a lost lock, they get the new one.

How a tree is killed. Own children stay zombies until reaped, so their pids and process groups can't have passed to
strangers, and killing a group is atomic against fork. Processes that left the group are found in /proc. They are
stopped first, so that they can't fork faster than we look, then killed; this repeats until the kernel reports no
children.

Limits of a command. Every command gets a session of its own, no privileges that a program's file could give
(`no_new_privs`), no core, and a private folder. Other bounds (`bounds`: rlimits, nice; `cgroups`; another user) are set
by the process itself just before it becomes the command. The report of the start names the bounds that were set.

This folder is a program of its own, which `__main__.py` starts: `loop` is the keeper, `warden` a warden, `command`
starts a command (in a place of `folders`, with its `bounds`, in a leaf of `cgroups`) and `tree` ends it, `wire` is how
they all talk. It imports next to nothing, and nothing of the rest of rota, since every warden is a fork of it. So
messages are words and NUL-separated strings and not JSON (0.5 MB). The node's side is `client`, `connection` and
`report`; function processes use some of the tools in here (`kernel`, `tree`, `wire`).

  to keeper and warden   `start NAME [LIMITS]` with [report, request, stdin, stdout, stderr] and perhaps one that the
                         command finds as its descriptor 3 (LIMITS: those of its bounds that a warden may take for its
                         own, as one word), `terminate NAME`, `kill NAME`, `guard` with descriptors to hold from
                         now on; to the keeper also `deadline SECONDS|none`
  from them              `ready` from the keeper, once, and `heard` after each deadline; from a warden `idle`, or
                         `spent` if it has a large folder to remove and takes no other command
  request (memory file)  bounds, cwd, number of arguments, arguments, KEY=VALUE..., joined by NUL; bounds are words
                         such as `files=100`, an empty cwd means a private one
  report (pipe)          `started PID WORD,...` or `failed ERRNO WHAT`; then
                         `exit STATUS CPU-SECONDS PEAK-BYTES -|oom`
"""
