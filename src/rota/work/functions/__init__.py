"""Functions in processes of their own: warm ones, so that a short function costs no start.

    node --- keeper --- warden --- fork server ---fork---> function process ---> processes that its function starts
      <------------------- channel and output pipes, one set per process -------------'

The *fork server* is a program of its own that imports the modules with the app's tasks, once, and then does nothing but
fork: a *function process* is a copy of it, so it starts within milliseconds and shares its memory. To the keeper the
fork server is one command among others. So everything that holds for commands holds for functions: they die with the
node, with its lease, and with the keeper.

There are two kinds of function process, with one engine and one vocabulary (`wire`):

- A *pool process* has room for one job, which runs on its main thread, where a signal can interrupt it. While functions
  are quick it gets a few orders ahead, so that it need not wait for the node between them. These wait in a socket of
  their own. The node holds a copy of the far end and can take orders back at any time: an order belongs to the side
  that has received it. The death of a process (a segfault, `os._exit`, a kill of an endless loop) concerns only its one
  job: the fork server reports `gone` to the node, which has another process forked.
- A *host* has room for many: async functions on its loop, sync ones in a thread each.

Functions that no other process could import run in the node, by the engine of hosts (`in_node`).

Messages:
  node to fork server   `begin` with a memory file (`Briefing`); `fork NAME` with [channel, stdout, stderr] for a host,
                        and [..., orders, tally] for a pool process; `terminate NAME`, `kill NAME`, `ping`
  fork server to node   `unable TASK WHY` for each task that it lacks, `ready`; `born NAME` or `failed NAME`;
                        `gone NAME STATUS` when nothing of its tree is left (words joined by NUL); `pong`
  channel, orders       frames of `wire`, each with the key of an order

  far side        node's side
  `fork_server`   `fork_server_client`   one life of the fork server
  `process`       `process_client`       a pool process; `tally` tells it whether its output was read
  `host`          `host_client`          a host
  `forked`        `client`, `pipes`      shared by both kinds: set-up, channel, output
  `reporter`                             the channel of a task's context
  `engine`        `in_node`              runs functions; also in the node's own process
                  `assignment`           one attempt: where it runs, how it is stopped
                  `pool`                 which attempt runs where, and how many processes there are
                  `processes`            which tasks run in other processes at all
"""
