"""The search for jobs, the same on both engines.

A condition is a tree (`model.query.tree`), or the plain fields of a `JobFilter`. `translation` makes SQL of it, with
values as parameters only. `prefixes` decides it for all ended jobs of one owner, state, queue and task at once, as far
as these four decide it. `plan` says what all jobs that fit have in common. From it each store chooses its *sources*:
places where jobs lie in the order of the search, such as the ended jobs of some prefixes, or the living jobs. `walk`
merges the sources, within a budget of rows and time. What is only known of the whole job (`exact` is false) is decided
by the oracle, `model.query.evaluate`, job by job.
"""
