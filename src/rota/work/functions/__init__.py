"""Functions in processes of their own: warm ones, so that a short function costs no start.

    controller (rota node) --- keeper --- warden --- nursery ---fork---> pool process ---> whatever its function starts
              <------------------- channel and output pipes, one set per process -------------'

The *nursery* is a program of its own that imports the modules with the app's tasks, once, and then does nothing but
fork: a *pool process* is a copy of it, so it starts within milliseconds and shares its memory. To the keeper the
nursery is one command among others. So everything that holds for commands holds for functions: they die with the node,
with its lease, and with the keeper.

A pool process runs one job at a time. While functions are quick it is given a few orders ahead, so that it need not
wait for the controller between them; they lie in a socket of which the controller holds a copy of the far end, and can
be taken back at any time: each belongs to whoever has received it. Whatever becomes of a process (a segfault,
`os._exit`, a loop that never lets go) is the matter of that one job: the controller hears `gone` from the nursery, and
forks another.

Who says what:
  controller to nursery   `begin` with a memory file (`Briefing`), `fork NAME` with [orders, channel, stdout,
                          stderr], `terminate NAME`, `kill NAME`, `ping`
  nursery to controller   `unable TASK WHY` for each that it lacks, `ready`; `born NAME` or `failed NAME`;
                          `gone NAME STATUS` when nothing of its tree is left (words joined by NUL); `pong`
  orders, channel         frames (`wire`): `Order` there; `Said`, `Told`, `Save` and `Done` back, some of them answered
                          with a byte

A *host* (`host NAME` with [channel, stdout, stderr]) is another fork of the nursery, for functions that share a
process: async ones on its loop, threads. Both ways it has frames, each with the key of an attempt.

  far side     controller's side
  `nursery`    `template`         one life of the nursery
  `process`    `member`           a pool process; `pipes` is its output
  `host`       `hosting`          a host
               `pool`             which attempt runs where, and how many processes there are
               `processes`        which tasks run here at all
"""
